/** Find the claim URL that an environment file holds, and open it. */

import { findEnvFile } from "./env-file.js";
import { settingsIn } from "./env-text.js";
import { DEFAULTS } from "./get-db.js";
import { CLAIM_SUFFIX } from "./names.js";
import { listed, plain, Problem } from "./problem.js";
import { isWebAddress } from "./service.js";

/** With a prefix exactly its own; without one the usual key's, else whichever there is. */
export async function claimUrlIn(env: string, prefix: string | undefined): Promise<string> {
  const settings = settingsIn((await findEnvFile(env)).text);
  const found = new Map(
    settings.filter(({ name }) => name.endsWith(CLAIM_SUFFIX)).map(({ name, value }) => [name, value]),
  );
  const name = `${prefix ?? DEFAULTS.prefix}${CLAIM_SUFFIX}`;
  const url = found.get(name) ?? (prefix === undefined ? onlyOne(env, found) : undefined);
  if (url === undefined) {
    const key = prefix === undefined ? `key that ends in ${CLAIM_SUFFIX}` : name;
    throw new Problem(`${env} has no ${key}: run get-db first, or name the file with --env.`);
  }
  if (!isWebAddress(url)) {
    throw new Problem(`"${plain(url, 100)}" in ${env} is not a web address, and is not opened: mend it there.`);
  }
  return url;
}

/** No browser is no error: the address has been printed. */
export async function openInBrowser(url: string): Promise<void> {
  const { default: open } = await import("open");
  const browser = await open(url);
  browser.on("error", () => undefined);
}

function onlyOne(env: string, found: ReadonlyMap<string, string>): string | undefined {
  const urls = new Set(found.values());
  if (urls.size > 1) {
    throw new Problem(`${env} has ${listed([...found.keys()])}: say which one with --prefix.`);
  }
  return [...urls][0];
}
