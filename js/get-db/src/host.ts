/** The URL of the platform: the one specified, else the one of the environment, else the one set at build time. */

import { DEFAULT_HOST } from "./default-host.js";
import { Problem } from "./problem.js";

/** Removes a trailing slash, and the path of the API, which is part of some URLs that users copy. */
export function resolveHost(host: string | undefined): string {
  const address = host ?? (process.env["INSTANT_BASE_URL"] || DEFAULT_HOST);
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new Problem(
      `"${address.replace(/\/\/[^/]*@/, "//…@")}" is not the URL of a platform; ` +
        "set --host or INSTANT_BASE_URL to a URL like http://localhost:8432.",
    );
  }
  return url.href.replace(/(?:\/api\/v1)?\/*$/, "");
}
