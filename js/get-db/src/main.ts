/** The command `get-db`. */

import { readFileSync } from "node:fs";

import { claimUrlIn, openInBrowser } from "./claim.js";
import { DEFAULTS, existingKeys, getDb, type Got } from "./get-db.js";
import { namesFor } from "./names.js";
import { givenBy, help, type Given } from "./options.js";
import { Cancelled, Problem } from "./problem.js";

const INTERRUPTED = 130;

async function run(argv: readonly string[]): Promise<void> {
  const given = givenBy(argv);
  if (given.help) {
    process.stdout.write(help());
  } else if (given.version) {
    process.stdout.write(`${version()}\n`);
  } else if (given.command === "claim") {
    await claim(given);
  } else {
    process.stdout.write(report(await got(given)));
  }
}

async function got(given: Given): Promise<Got> {
  if (given.yes || !process.stdin.isTTY || !process.stdout.isTTY) {
    return getDb(given);
  }
  const { answersTo, mayOverwrite } = await import("./prompts.js"); // only who asks has to wait for it
  const answers = await answersTo(given);
  const existing = await existingKeys(answers.env, namesFor(answers.key, answers.prefix));
  if (existing.length > 0 && !(await mayOverwrite(answers.env, existing))) {
    throw new Problem(`${answers.env} stays as it is, and nothing was made.`);
  }
  return getDb({ ...given, ...answers, overwrite: existing.length > 0 });
}

async function claim({ env = DEFAULTS.env, prefix }: Given): Promise<void> {
  const url = await claimUrlIn(env, prefix);
  process.stdout.write(`Opening ${url}\nIf no browser opens, go to that address yourself.\n`);
  await openInBrowser(url);
}

function report({ envFile, names, claimUrl, expiresAt, isSeeded }: Got): string {
  const where = envFile === DEFAULTS.env ? "" : ` --env ${envFile}`;
  const lines = [
    `Made a Postgres database and wrote it to ${envFile}${isSeeded ? "; the seed has run" : ""}.`,
    `  ${names.pooled}: the pooled connection string`,
    `  ${names.direct}: the direct one`,
    `  ${names.claim}: ${claimUrl}`,
    `It expires on ${expiresAt.toUTCString()} unless you claim it there, or with: npx get-db claim${where}`,
  ];
  return `${lines.join("\n")}\n`;
}

function version(): string {
  const described: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  return (described as { version: string }).version;
}

function ending(error: unknown): number {
  if (error instanceof Cancelled) {
    process.stderr.write("get-db: nothing was made.\n");
    return INTERRUPTED;
  }
  const sentence = error instanceof Problem ? error.message : `something unexpected happened: ${String(error)}`;
  process.stderr.write(`get-db: ${sentence}\n`);
  return error instanceof Problem ? error.exitCode : 1;
}

// Leaving by `exit` lets go of locks.
process.once("SIGINT", () => process.exit(INTERRUPTED));
process.once("SIGTERM", () => process.exit(143));

try {
  await run(process.argv.slice(2));
} catch (error) {
  process.exitCode = ending(error);
}
