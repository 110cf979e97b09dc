/**
 * `postgres(options)`: creates a database for the dev server.
 *
 * The plugin creates the database before Vite reads the environment files, so that the same start can use it. It does
 * nothing in a build, in a preview and in Vitest. If no database can be created, it logs the reason and the dev server
 * starts without one, because much of an app may work without a database. The next start tries again.
 */

import { resolve } from "node:path";

import { getDb, hasKey, KeysExist, Problem, type GetDbResult } from "get-db";
import { createLogger, loadEnv, type Logger, type Plugin, type UserConfig } from "vite";

const RESPONSE_TIMEOUT = 30_000;
const VITE_PREFIX = "VITE_";

export interface PostgresOptions {
  /** Referrer identifier. */
  readonly referrer: string;
  /** Environment file, relative to Vite's `envDir`; `.env` by default. */
  readonly dotEnvFile?: string;
  /** Variable for the connection string; `DATABASE_URL` by default. */
  readonly dotEnvKey?: string;
  /** Prefix of public variables; Vite's `envPrefix` by default. */
  readonly envPrefix?: string;
  /** SQL file to seed a new database with, relative to Vite's `root`. */
  readonly seed?: { readonly type: "sql-script"; readonly path: string };
  /** URL of the platform; the environment variable `INSTANT_BASE_URL` by default. */
  readonly host?: string;
}

export function postgres(options: PostgresOptions): Plugin {
  checkOptions(options);
  return {
    name: "postgres",
    enforce: "pre", // other plugins read the environment files in the same hook
    apply: (_config, { command, isPreview }) => command === "serve" && !isPreview && !process.env["VITEST"],
    config: async (config, { mode }) => {
      const logger = config.customLogger ?? createLogger(config.logLevel);
      await ensureDatabase(options, config, mode, logger);
    },
  };
}

export default postgres;

function checkOptions({ referrer, seed }: PostgresOptions): void {
  if (typeof referrer !== "string" || referrer.trim() === "") {
    throw new Error('postgres() needs a referrer: postgres({ referrer: "my-app" }).');
  }
  if (seed !== undefined && (seed.type !== "sql-script" || typeof seed.path !== "string" || seed.path === "")) {
    throw new Error('The seed of postgres() must have the form { type: "sql-script", path: "seed.sql" }.');
  }
}

async function ensureDatabase(
  options: PostgresOptions,
  config: UserConfig,
  mode: string,
  logger: Logger,
): Promise<void> {
  const { referrer: ref, dotEnvFile = ".env", dotEnvKey: key = "DATABASE_URL", seed, host } = options;
  const root = resolve(config.root ?? ".");
  const folder = config.envDir ? resolve(root, config.envDir) : root;
  const env = resolve(folder, dotEnvFile);
  const prefix = options.envPrefix ?? [config.envPrefix ?? VITE_PREFIX].flat()[0] ?? VITE_PREFIX;
  try {
    if (Object.hasOwn(loadEnv(mode, folder, key), key) || (await hasKey(env, key))) {
      return;
    }
    const seedPath = seed && resolve(root, seed.path);
    const result = await getDb({ ref, env, key, prefix, seed: seedPath, host, timeout: RESPONSE_TIMEOUT });
    logger.info(formatResult(result));
  } catch (error) {
    if (error instanceof KeysExist && error.keys.includes(key)) {
      return; // another dev server has created the database meanwhile
    }
    if (!(error instanceof Problem)) {
      throw error;
    }
    logger.error(`[postgres] ${error.message}\n[postgres] The dev server starts without a new database.`);
  }
}

function formatResult({ envFile, names, claimUrl, expiresAt }: GetDbResult): string {
  return (
    `[postgres] Created a database and wrote it to ${envFile} as ${names.pooled}.\n` +
    `[postgres] It expires at ${expiresAt.toUTCString()} unless you claim it: ${claimUrl}`
  );
}
