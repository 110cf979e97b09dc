/** The names of the variables that get-db writes to an environment file. */

import { Problem } from "./problem.js";

export const CLAIM_SUFFIX = "INSTANT_CLAIM_URL";
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface Names {
  readonly pooled: string;
  readonly direct: string;
  readonly claim: string;
}

export function makeNames(key: string, prefix: string): Names {
  if (!isName(key)) {
    throw new Problem(
      `"${key}" is not a variable name (--key): use letters, digits and _, and do not start with a digit.`,
    );
  }
  if (!isPrefix(prefix)) {
    throw new Problem(
      `"${prefix}" cannot start a variable name (--prefix): use letters, digits and _, and do not start with a digit.`,
    );
  }
  const names = { pooled: key, direct: `${key}_DIRECT`, claim: `${prefix}${CLAIM_SUFFIX}` };
  if (names.claim === names.pooled || names.claim === names.direct) {
    throw new Problem(`${names.claim} would be set twice; choose another --key or --prefix.`);
  }
  return names;
}

export function allNames(names: Names): string[] {
  return [names.pooled, names.direct, names.claim];
}

export function isName(text: string): boolean {
  return NAME.test(text);
}

export function isPrefix(text: string): boolean {
  return text === "" || NAME.test(text);
}
