/** Reads the claim URL from an environment file and opens it in a browser. */

import { readEnvFile } from "./env-file.js";
import { parseSettings } from "./env-text.js";
import { DEFAULTS } from "./get-db.js";
import { CLAIM_SUFFIX } from "./names.js";
import { joinWords, Problem, sanitize } from "./problem.js";
import { isHttpUrl } from "./service.js";

/** Reads the variable with this prefix. Without a prefix, uses the default variable or else the only one. */
export async function readClaimUrl(env: string, prefix: string | undefined): Promise<string> {
  const settings = parseSettings((await readEnvFile(env)).text);
  const urls = new Map(
    settings.filter(({ name }) => name.endsWith(CLAIM_SUFFIX)).map(({ name, value }) => [name, value]),
  );
  const name = `${prefix ?? DEFAULTS.prefix}${CLAIM_SUFFIX}`;
  const url = urls.get(name) ?? (prefix === undefined ? onlyUrl(env, urls) : undefined);
  if (url === undefined) {
    const variable = prefix === undefined ? `variable that ends in ${CLAIM_SUFFIX}` : name;
    throw new Problem(`${env} has no ${variable}; run get-db first, or choose another file with --env.`);
  }
  if (!isHttpUrl(url)) {
    throw new Problem(`"${sanitize(url, 100)}" in ${env} is not a web address, so it was not opened; correct it.`);
  }
  return url;
}

/** A missing browser is not an error, because the URL has been printed. */
export async function openInBrowser(url: string): Promise<void> {
  const { default: open } = await import("open");
  const browser = await open(url);
  browser.on("error", () => undefined);
}

function onlyUrl(env: string, urls: ReadonlyMap<string, string>): string | undefined {
  const distinct = new Set(urls.values());
  if (distinct.size > 1) {
    throw new Problem(`${env} has ${joinWords([...urls.keys()])}; choose one with --prefix.`);
  }
  return [...distinct][0];
}
