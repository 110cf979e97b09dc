/** The variables of an environment file that a database is written to. */

import { Problem } from "./problem.js";

export const CLAIM_SUFFIX = "INSTANT_CLAIM_URL";
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface Names {
  readonly pooled: string;
  readonly direct: string;
  readonly claim: string;
}

export function namesFor(key: string, prefix: string): Names {
  if (!isName(key)) {
    throw new Problem(`"${key}" cannot name a variable: use letters, digits and _, and no digit first (--key).`);
  }
  if (!isPrefix(prefix)) {
    throw new Problem(`"${prefix}" cannot begin a variable: use letters, digits and _, and no digit first (--prefix).`);
  }
  const names = { pooled: key, direct: `${key}_DIRECT`, claim: `${prefix}${CLAIM_SUFFIX}` };
  if (names.claim === names.pooled || names.claim === names.direct) {
    throw new Problem(`${names.claim} would be written twice: choose another --key or --prefix.`);
  }
  return names;
}

export function allOf(names: Names): string[] {
  return [names.pooled, names.direct, names.claim];
}

export function isName(text: string): boolean {
  return NAME.test(text);
}

export function isPrefix(text: string): boolean {
  return text === "" || NAME.test(text);
}
