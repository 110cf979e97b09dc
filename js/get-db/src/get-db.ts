/**
 * Creates a database and writes its connection strings to an environment file.
 *
 * The names, the seed and the file are checked before the database is created. Then the database is created, written
 * to the file and seeded. A failure of one of these steps does not undo the earlier ones.
 */

import { directConnectionStringOf } from "./connection.js";
import { readEnvFile, readWritableEnvFile, replaceEnvFile, type EnvFile } from "./env-file.js";
import { insertDatabase, parseSettings } from "./env-text.js";
import { resolveHost } from "./host.js";
import { withLock } from "./lock.js";
import { allNames, makeNames, type Names } from "./names.js";
import { joinWords, Problem } from "./problem.js";
import { readSeed, runSeed, type Seed } from "./seed.js";
import { createDatabase, type Database } from "./service.js";

export const DEFAULTS = { env: "./.env", key: "DATABASE_URL", prefix: "PUBLIC_", ref: "get-db" } as const;

export interface GetDbOptions {
  /** Environment file. */
  readonly env?: string | undefined;
  /** Variable for the connection string. */
  readonly key?: string | undefined;
  /** Prefix of public variables. */
  readonly prefix?: string | undefined;
  /** SQL file to seed the database with. */
  readonly seed?: string | undefined;
  readonly logicalReplication?: boolean | undefined;
  /** Referrer identifier. */
  readonly ref?: string | undefined;
  /** URL of the platform. */
  readonly host?: string | undefined;
  /** Replace variables that the file already has. */
  readonly overwrite?: boolean | undefined;
  /** How long the platform may take to respond, in milliseconds. */
  readonly timeout?: number | undefined;
}

export interface GetDbResult extends Database {
  readonly directConnectionString: string;
  readonly envFile: string;
  readonly names: Names;
  readonly isSeeded: boolean;
}

/** The file already has variables that would be overwritten. */
export class KeysExist extends Problem {
  override readonly name = "KeysExist";
  constructor(
    readonly envFile: string,
    readonly keys: readonly string[],
  ) {
    super(
      `${envFile} already has ${joinWords(keys)}, and existing variables are not overwritten without confirmation; ` +
        "remove them, or choose another --key, --prefix or --env.",
    );
  }
}

/** The database was created and written to the file, but its seed failed. */
export class SeedFailed extends Problem {
  override readonly name = "SeedFailed";
  constructor(
    readonly result: GetDbResult,
    seed: Seed,
    cause: Problem,
  ) {
    super(
      `${cause.message}\nThe database exists and ${result.envFile} is written; correct the seed and run it with\n` +
        `  psql "$${result.names.direct}" -1 -f ${seed.path}`,
    );
  }
}

export async function getDb(options: GetDbOptions = {}): Promise<GetDbResult> {
  const { env = DEFAULTS.env, key = DEFAULTS.key, prefix = DEFAULTS.prefix, ref = DEFAULTS.ref } = options;
  const names = makeNames(key, prefix);
  const host = resolveHost(options.host);
  const seed = options.seed === undefined ? undefined : await readSeed(options.seed);
  const { target } = await checkEnvFile(env, names, options.overwrite);
  const result = await withLock(target, async () => {
    await checkEnvFile(env, names, options.overwrite);
    const { logicalReplication = false, timeout } = options;
    const database = await createDatabase({ host, ref, logicalReplication, ...(timeout ? { timeout } : {}) });
    return writeDatabase(env, names, database, options.overwrite);
  });
  if (!seed) {
    return result;
  }
  try {
    await runSeed(seed, result.directConnectionString);
  } catch (error) {
    throw error instanceof Problem ? new SeedFailed(result, seed, error) : error;
  }
  return { ...result, isSeeded: true };
}

/** Whether the file sets the variable, even to an empty value. */
export async function hasKey(env: string, key: string): Promise<boolean> {
  return parseSettings((await readEnvFile(env)).text).some((setting) => setting.name === key);
}

/** Those of our variables that the file already has. */
export async function existingKeys(env: string, names: Names): Promise<string[]> {
  return filterExisting((await readWritableEnvFile(env)).text, names);
}

async function checkEnvFile(env: string, names: Names, overwrite = false): Promise<EnvFile> {
  const file = await readWritableEnvFile(env);
  const existing = filterExisting(file.text, names);
  if (existing.length > 0 && !overwrite) {
    throw new KeysExist(env, existing);
  }
  return file;
}

function filterExisting(text: string, names: Names): string[] {
  const variables = new Set(parseSettings(text).map((setting) => setting.name));
  return allNames(names).filter((name) => variables.has(name));
}

/** Reads the file again, because it may have changed while the database was created. */
async function writeDatabase(env: string, names: Names, database: Database, overwrite = false): Promise<GetDbResult> {
  const { connectionString, claimUrl, expiresAt } = database;
  const directConnectionString = directConnectionStringOf(connectionString);
  try {
    const file = await checkEnvFile(env, names, overwrite);
    const values = { pooled: connectionString, direct: directConnectionString, claimUrl, expiresAt };
    await replaceEnvFile(file, insertDatabase(file.text, names, values));
  } catch (error) {
    const reason = error instanceof Problem ? error.message : String(error);
    throw new Problem(
      `${reason}\nThe database was created nevertheless; it can be claimed at ${claimUrl} until it expires.`,
    );
  }
  return { ...database, directConnectionString, envFile: env, names, isSeeded: false };
}
