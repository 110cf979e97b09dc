/** The command line: one table says what there is, and is also the help. */

import { parseArgs } from "node:util";

import { DEFAULT_HOST } from "./default-host.js";
import { DEFAULTS } from "./get-db.js";
import { UsageProblem } from "./problem.js";

interface Option {
  readonly type: "boolean" | "string";
  readonly short?: string;
  readonly value?: string;
  readonly meaning: string;
}

export const OPTIONS = {
  yes: { type: "boolean", short: "y", meaning: "Skip prompts and use defaults" },
  env: { type: "string", short: "e", value: "path", meaning: `Environment file (default: ${DEFAULTS.env})` },
  key: {
    type: "string",
    short: "k",
    value: "name",
    meaning: `Variable for the connection string (default: ${DEFAULTS.key})`,
  },
  prefix: {
    type: "string",
    short: "p",
    value: "text",
    meaning: `Prefix of public variables (default: ${DEFAULTS.prefix})`,
  },
  seed: { type: "string", short: "s", value: "path", meaning: "SQL file to seed the database with" },
  "logical-replication": { type: "boolean", short: "L", meaning: "Enable logical replication (default: false)" },
  ref: { type: "string", short: "r", value: "name", meaning: `Referrer identifier (default: ${DEFAULTS.ref})` },
  host: { type: "string", value: "url", meaning: `The platform (default: $INSTANT_BASE_URL, else ${DEFAULT_HOST})` },
  help: { type: "boolean", short: "h", meaning: "Show this help" },
  version: { type: "boolean", meaning: "Show the version" },
} as const satisfies Record<string, Option>;

const OF_CLAIM: ReadonlySet<string> = new Set(["yes", "env", "prefix", "help", "version"]);

export interface Given {
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

export function givenBy(argv: readonly string[]): Given {
  const { values, positionals } = parsed(argv);
  const [command, ...others] = positionals;
  if ((command !== undefined && command !== "claim") || others.length > 0) {
    throw usage(`There is no command "${positionals.join(" ")}".`);
  }
  for (const [name, value] of Object.entries(values)) {
    if (value === "" && name !== "prefix") {
      throw usage(`--${name} needs a value that is not empty.`);
    }
    if (command === "claim" && !OF_CLAIM.has(name)) {
      throw usage(`claim does not know --${name}.`);
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

function parsed(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw usage(error instanceof Error ? firstSentence(error.message) : String(error));
  }
}

function firstSentence(text: string): string {
  return `${text.split(/\. |\n/)[0]?.replace(/\.$/, "")}.`;
}

function usage(sentence: string): UsageProblem {
  return new UsageProblem(`${sentence} See get-db --help.`);
}

export function help(): string {
  const rows = Object.entries<Option>(OPTIONS).map(([name, { short, value, meaning }]) => {
    const left = `${short ? `-${short}, ` : "    "}--${name}${value ? ` <${value}>` : ""}`;
    return `  ${left.padEnd(28)}${meaning}`;
  });
  return `Get a Postgres database in one call, without an account. It expires unless it is claimed.

Usage
  get-db [options]          make a database and write it to an environment file
  get-db claim [options]    open the claim URL of an environment file (--env, --prefix)

Options
${rows.join("\n")}
`;
}
