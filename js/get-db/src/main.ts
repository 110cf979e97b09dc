/** The command `get-db`. */

import { readFileSync } from "node:fs";

import { openInBrowser, readClaimUrl } from "./claim.js";
import { DEFAULTS, existingKeys, getDb, type GetDbResult } from "./get-db.js";
import { makeNames } from "./names.js";
import { helpText, parseArguments, type Arguments } from "./options.js";
import { Canceled, Problem } from "./problem.js";

const EXIT_SIGINT = 130;
const EXIT_SIGTERM = 143;

async function run(argv: readonly string[]): Promise<void> {
  const args = parseArguments(argv);
  if (args.help) {
    process.stdout.write(helpText());
  } else if (args.version) {
    process.stdout.write(`${packageVersion()}\n`);
  } else if (args.command === "claim") {
    await claim(args);
  } else {
    process.stdout.write(formatResult(await create(args)));
  }
}

async function create(args: Arguments): Promise<GetDbResult> {
  if (args.yes || !process.stdin.isTTY || !process.stdout.isTTY) {
    return getDb(args);
  }
  const { askForMissing, confirmOverwrite } = await import("./prompts.js"); // slow to load and not always needed
  const answers = await askForMissing(args);
  const existing = await existingKeys(answers.env, makeNames(answers.key, answers.prefix));
  if (existing.length > 0 && !(await confirmOverwrite(answers.env, existing))) {
    throw new Problem(`${answers.env} was not changed, and nothing was created.`);
  }
  return getDb({ ...args, ...answers, overwrite: existing.length > 0 });
}

async function claim({ env = DEFAULTS.env, prefix }: Arguments): Promise<void> {
  const url = await readClaimUrl(env, prefix);
  process.stdout.write(`Opening ${url}\nIf no browser opens, open this URL yourself.\n`);
  await openInBrowser(url);
}

function formatResult({ envFile, names, claimUrl, expiresAt, isSeeded }: GetDbResult): string {
  const envOption = envFile === DEFAULTS.env ? "" : ` --env ${envFile}`;
  const lines = [
    `Created a Postgres database and wrote it to ${envFile}${isSeeded ? "; the seed has run" : ""}.`,
    `  ${names.pooled}: the pooled connection string`,
    `  ${names.direct}: the direct connection string`,
    `  ${names.claim}: ${claimUrl}`,
    `It expires at ${expiresAt.toUTCString()} unless you claim it at this URL, or with: npx get-db claim${envOption}`,
  ];
  return `${lines.join("\n")}\n`;
}

function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  return (manifest as { version: string }).version;
}

/** Prints the error and returns the exit code. */
function reportError(error: unknown): number {
  if (error instanceof Canceled) {
    process.stderr.write("get-db: canceled; nothing was created.\n");
    return EXIT_SIGINT;
  }
  const message = error instanceof Problem ? error.message : `unexpected error: ${String(error)}`;
  process.stderr.write(`get-db: ${message}\n`);
  return error instanceof Problem ? error.exitCode : 1;
}

// `exit` runs the handlers that release locks; the default action of a signal does not.
process.once("SIGINT", () => process.exit(EXIT_SIGINT));
process.once("SIGTERM", () => process.exit(EXIT_SIGTERM));

try {
  await run(process.argv.slice(2));
} catch (error) {
  process.exitCode = reportError(error);
}
