/** Questions to a person at a terminal, for what the command line did not say. */

import { confirm, isCancel, text } from "@clack/prompts";

import { DEFAULTS } from "./get-db.js";
import { isName, isPrefix, namesFor } from "./names.js";
import type { Given } from "./options.js";
import { Cancelled, listed } from "./problem.js";

export interface Answers {
  readonly env: string;
  readonly key: string;
  readonly prefix: string;
  readonly seed: string | undefined;
}

export async function answersTo(given: Given): Promise<Answers> {
  const env = given.env ?? (await asked("Environment file", DEFAULTS.env));
  const key = given.key ?? (await asked("Variable for the connection string", DEFAULTS.key, isName));
  const prefix = given.prefix ?? (await asked("Prefix of public variables", DEFAULTS.prefix, isPrefix));
  const seed = given.seed ?? (await asked("SQL file to seed it with (empty for none)", ""));
  namesFor(key, prefix);
  return { env, key, prefix, seed: seed || undefined };
}

export async function mayOverwrite(env: string, keys: readonly string[]): Promise<boolean> {
  const message = `${env} has ${listed(keys)} already. Overwrite?`;
  return ended(await confirm({ message, initialValue: false }));
}

async function asked(message: string, usual: string, isValid: (text: string) => boolean = () => true): Promise<string> {
  const validate = (given = "") =>
    given === "" || isValid(given) ? undefined : "Use letters, digits and _, and no digit first.";
  return ended(await text({ message, placeholder: usual, defaultValue: usual, validate }));
}

function ended<T>(answer: T): Exclude<T, symbol> {
  if (isCancel(answer)) {
    throw new Cancelled();
  }
  return answer as Exclude<T, symbol>;
}
