/** Prompts for the options that are missing on the command line. */

import { confirm, isCancel, text } from "@clack/prompts";

import { DEFAULTS } from "./get-db.js";
import { isName, isPrefix, makeNames } from "./names.js";
import type { Arguments } from "./options.js";
import { Canceled, joinWords } from "./problem.js";

export interface Answers {
  readonly env: string;
  readonly key: string;
  readonly prefix: string;
  readonly seed: string | undefined;
}

export async function askForMissing(args: Arguments): Promise<Answers> {
  const env = args.env ?? (await ask("Environment file", DEFAULTS.env));
  const key = args.key ?? (await ask("Variable for the connection string", DEFAULTS.key, isName));
  const prefix = args.prefix ?? (await ask("Prefix of public variables", DEFAULTS.prefix, isPrefix));
  const seed = args.seed ?? (await ask("SQL file to seed the database with (empty for none)", ""));
  makeNames(key, prefix);
  return { env, key, prefix, seed: seed || undefined };
}

export async function confirmOverwrite(env: string, keys: readonly string[]): Promise<boolean> {
  const message = `${env} already has ${joinWords(keys)}. Overwrite?`;
  return throwIfCanceled(await confirm({ message, initialValue: false }));
}

async function ask(
  message: string,
  defaultValue: string,
  isValid: (text: string) => boolean = () => true,
): Promise<string> {
  const validate = (answer = "") =>
    answer === "" || isValid(answer) ? undefined : "Use letters, digits and _, and do not start with a digit.";
  return throwIfCanceled(await text({ message, placeholder: defaultValue, defaultValue, validate }));
}

function throwIfCanceled<T>(answer: T): Exclude<T, symbol> {
  if (isCancel(answer)) {
    throw new Canceled();
  }
  return answer as Exclude<T, symbol>;
}
