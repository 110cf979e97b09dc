/**
 * `postgres(options)`: a database for the dev server.
 *
 * It is made before Vite reads the environment files, so that the same start sees it; in a build, a preview or a run of
 * Vitest nothing happens. When it cannot be made the dev server starts all the same and its log says why: much of an
 * app may work without a database, and the next start tries again.
 */

import { resolve } from "node:path";

import { getDb, hasKey, KeysExist, Problem, type Got } from "get-db";
import { createLogger, loadEnv, type Logger, type Plugin, type UserConfig } from "vite";

const PATIENCE = 30_000;
const VITE_PREFIX = "VITE_";

export interface PostgresOptions {
  /** Referrer identifier. */
  readonly referrer: string;
  /** Environment file, seen from Vite's `envDir`; `.env` if absent. */
  readonly dotEnvFile?: string;
  /** Variable name for the connection string; `DATABASE_URL` if absent. */
  readonly dotEnvKey?: string;
  /** Prefix for public variables; Vite's own `envPrefix` if absent. */
  readonly envPrefix?: string;
  /** SQL file to run in a new database, seen from Vite's `root`. */
  readonly seed?: { readonly type: "sql-script"; readonly path: string };
  /** Address of the platform; `INSTANT_BASE_URL` of the environment if absent. */
  readonly host?: string;
}

export function postgres(options: PostgresOptions): Plugin {
  check(options);
  return {
    name: "postgres",
    enforce: "pre", // other plugins read the environment files in the same hook
    apply: (_config, { command, isPreview }) => command === "serve" && !isPreview && !process.env["VITEST"],
    config: async (config, { mode }) => {
      const logger = config.customLogger ?? createLogger(config.logLevel);
      await provide(options, config, mode, logger);
    },
  };
}

export default postgres;

function check({ referrer, seed }: PostgresOptions): void {
  if (typeof referrer !== "string" || referrer.trim() === "") {
    throw new Error('postgres() needs a referrer: postgres({ referrer: "my-app" }).');
  }
  if (seed !== undefined && (seed.type !== "sql-script" || typeof seed.path !== "string" || seed.path === "")) {
    throw new Error('The seed of postgres() is written { type: "sql-script", path: "seed.sql" }.');
  }
}

async function provide(options: PostgresOptions, config: UserConfig, mode: string, logger: Logger): Promise<void> {
  const { referrer: ref, dotEnvFile = ".env", dotEnvKey: key = "DATABASE_URL", seed, host } = options;
  const root = resolve(config.root ?? ".");
  const folder = config.envDir ? resolve(root, config.envDir) : root;
  const env = resolve(folder, dotEnvFile);
  const prefix = options.envPrefix ?? [config.envPrefix ?? VITE_PREFIX].flat()[0] ?? VITE_PREFIX;
  try {
    if (Object.hasOwn(loadEnv(mode, folder, key), key) || (await hasKey(env, key))) {
      return;
    }
    const path = seed && resolve(root, seed.path);
    logger.info(told(await getDb({ ref, env, key, prefix, seed: path, host, patience: PATIENCE })));
  } catch (error) {
    if (error instanceof KeysExist && error.keys.includes(key)) {
      return; // another dev server was faster
    }
    if (!(error instanceof Problem)) {
      throw error;
    }
    logger.error(`[postgres] ${error.message}\n[postgres] The dev server starts without a new database.`);
  }
}

function told({ envFile, names, claimUrl, expiresAt }: Got): string {
  return (
    `[postgres] Made a database; ${envFile} has it as ${names.pooled}.\n` +
    `[postgres] It expires on ${expiresAt.toUTCString()} unless you claim it: ${claimUrl}`
  );
}
