/** Where the platform is: the given address, else the environment's, else the one set at build. */

import { DEFAULT_HOST } from "./default-host.js";
import { Problem } from "./problem.js";

/** Without a slash at its end, and without the path of the service, which is in some addresses that people copy. */
export function chosenHost(given: string | undefined): string {
  const address = given ?? (process.env["INSTANT_BASE_URL"] || DEFAULT_HOST);
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new Problem(
      `"${address.replace(/\/\/[^/]*@/, "//…@")}" is not an address to ask: ` +
        "give --host or INSTANT_BASE_URL one such as http://localhost:8432.",
    );
  }
  return url.href.replace(/(?:\/api\/v1)?\/*$/, "");
}
