/** The command line: one table defines the options and produces the help text. */

import { parseArgs } from "node:util";

import { DEFAULT_HOST } from "./default-host.js";
import { DEFAULTS } from "./get-db.js";
import { UsageProblem } from "./problem.js";

interface Option {
  readonly type: "boolean" | "string";
  readonly short?: string;
  readonly value?: string;
  readonly description: string;
}

export const OPTIONS = {
  yes: { type: "boolean", short: "y", description: "Skip prompts and use defaults" },
  env: { type: "string", short: "e", value: "path", description: `Environment file (default: ${DEFAULTS.env})` },
  key: {
    type: "string",
    short: "k",
    value: "name",
    description: `Variable for the connection string (default: ${DEFAULTS.key})`,
  },
  prefix: {
    type: "string",
    short: "p",
    value: "text",
    description: `Prefix of public variables (default: ${DEFAULTS.prefix})`,
  },
  seed: { type: "string", short: "s", value: "path", description: "SQL file to seed the database with" },
  "logical-replication": { type: "boolean", short: "L", description: "Enable logical replication (default: false)" },
  ref: {
    type: "string",
    short: "r",
    value: "name",
    description: `Referrer identifier (default: ${DEFAULTS.ref})`,
  },
  host: {
    type: "string",
    value: "url",
    description: `Platform URL (default: $INSTANT_BASE_URL, else ${DEFAULT_HOST})`,
  },
  help: { type: "boolean", short: "h", description: "Show this help" },
  version: { type: "boolean", description: "Show the version" },
} as const satisfies Record<string, Option>;

const CLAIM_OPTIONS: ReadonlySet<string> = new Set(["yes", "env", "prefix", "help", "version"]);

export interface Arguments {
  readonly command: "get" | "claim";
  readonly yes: boolean;
  readonly env?: string | undefined;
  readonly key?: string | undefined;
  readonly prefix?: string | undefined;
  readonly seed?: string | undefined;
  readonly logicalReplication: boolean;
  readonly ref?: string | undefined;
  readonly host?: string | undefined;
  readonly help: boolean;
  readonly version: boolean;
}

export function parseArguments(argv: readonly string[]): Arguments {
  const { values, positionals } = parseArgv(argv);
  const [command, ...others] = positionals;
  if ((command !== undefined && command !== "claim") || others.length > 0) {
    throw usageProblem(`Unknown command "${positionals.join(" ")}".`);
  }
  for (const [name, value] of Object.entries(values)) {
    if (value === "" && name !== "prefix") {
      throw usageProblem(`The value of --${name} must not be empty.`);
    }
    if (command === "claim" && !CLAIM_OPTIONS.has(name)) {
      throw usageProblem(`claim does not accept --${name}.`);
    }
  }
  const {
    yes = false,
    help = false,
    version = false,
    "logical-replication": logicalReplication = false,
    ...rest
  } = values;
  return { command: command ? "claim" : "get", yes, help, version, logicalReplication, ...rest };
}

function parseArgv(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw usageProblem(error instanceof Error ? firstSentence(error.message) : String(error));
  }
}

function firstSentence(text: string): string {
  return `${text.split(/\. |\n/)[0]?.replace(/\.$/, "")}.`;
}

function usageProblem(message: string): UsageProblem {
  return new UsageProblem(`${message} See get-db --help.`);
}

export function helpText(): string {
  const rows = Object.entries<Option>(OPTIONS).map(([name, { short, value, description }]) => {
    const usage = `${short ? `-${short}, ` : "    "}--${name}${value ? ` <${value}>` : ""}`;
    return `  ${usage.padEnd(28)}${description}`;
  });
  return `Get a Postgres database in one call, without an account. The database expires unless you claim it.

Usage
  get-db [options]          create a database and write it to an environment file
  get-db claim [options]    open the claim URL in an environment file (--env, --prefix)

Options
${rows.join("\n")}
`;
}
