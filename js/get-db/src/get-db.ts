/**
 * Get a database and write it to an environment file.
 *
 * All that can be refused is refused before the database is made: names, the seed, the file, keys that are there
 * already. Then it is made, written, and seeded; each of these leaves the earlier ones in place when it fails.
 */

import { directOf } from "./connection.js";
import { findEnvFile, findWritableEnvFile, replaceEnvFile, type EnvFile } from "./env-file.js";
import { settingsIn, withDatabase } from "./env-text.js";
import { chosenHost } from "./host.js";
import { alone } from "./lock.js";
import { allOf, namesFor, type Names } from "./names.js";
import { listed, Problem } from "./problem.js";
import { readSeed, runSeed, type Seed } from "./seed.js";
import { createDatabase, type Database } from "./service.js";

export const DEFAULTS = { env: "./.env", key: "DATABASE_URL", prefix: "PUBLIC_", ref: "get-db" } as const;

export interface Wish {
  /** Environment file. */
  readonly env?: string | undefined;
  /** Variable name for the connection string. */
  readonly key?: string | undefined;
  /** Prefix of generated public variables. */
  readonly prefix?: string | undefined;
  /** SQL file used to seed the database. */
  readonly seed?: string | undefined;
  readonly logicalReplication?: boolean | undefined;
  /** Referrer identifier. */
  readonly ref?: string | undefined;
  /** Address of the platform. */
  readonly host?: string | undefined;
  /** Replace keys that are in the file already. */
  readonly overwrite?: boolean | undefined;
  /** How long the platform may take to answer, in milliseconds. */
  readonly patience?: number | undefined;
}

export interface Got extends Database {
  readonly directConnectionString: string;
  readonly envFile: string;
  readonly names: Names;
  readonly isSeeded: boolean;
}

/** The file has keys that would be overwritten. */
export class KeysExist extends Problem {
  override readonly name = "KeysExist";
  constructor(
    readonly envFile: string,
    readonly keys: readonly string[],
  ) {
    super(
      `${envFile} has ${listed(keys)} already, and nothing is overwritten without asking: ` +
        "remove that there, or choose another --key, --prefix or --env.",
    );
  }
}

/** The database was made and written; its seed did not run. */
export class SeedFailed extends Problem {
  override readonly name = "SeedFailed";
  constructor(
    readonly got: Got,
    seed: Seed,
    cause: Problem,
  ) {
    super(
      `${cause.message}\nThe database exists and ${got.envFile} has it. Mend the seed and run it with\n` +
        `  psql "$${got.names.direct}" -1 -f ${seed.path}`,
    );
  }
}

export async function getDb(wish: Wish = {}): Promise<Got> {
  const { env = DEFAULTS.env, key = DEFAULTS.key, prefix = DEFAULTS.prefix, ref = DEFAULTS.ref } = wish;
  const names = namesFor(key, prefix);
  const host = chosenHost(wish.host);
  const seed = wish.seed === undefined ? undefined : await readSeed(wish.seed);
  const { target } = await checkedEnvFile(env, names, wish.overwrite);
  const got = await alone(target, async () => {
    await checkedEnvFile(env, names, wish.overwrite);
    const { logicalReplication = false, patience } = wish;
    const database = await createDatabase({ host, ref, logicalReplication, ...(patience ? { patience } : {}) });
    return written(env, names, database, wish.overwrite);
  });
  if (!seed) {
    return got;
  }
  try {
    await runSeed(seed, got.directConnectionString);
  } catch (error) {
    throw error instanceof Problem ? new SeedFailed(got, seed, error) : error;
  }
  return { ...got, isSeeded: true };
}

/** Whether a file sets it, be it to nothing. */
export async function hasKey(env: string, key: string): Promise<boolean> {
  return settingsIn((await findEnvFile(env)).text).some((setting) => setting.name === key);
}

/** The keys that are in the file already. */
export async function existingKeys(env: string, names: Names): Promise<string[]> {
  return keysIn((await findWritableEnvFile(env)).text, names);
}

async function checkedEnvFile(env: string, names: Names, overwrite = false): Promise<EnvFile> {
  const file = await findWritableEnvFile(env);
  const existing = keysIn(file.text, names);
  if (existing.length > 0 && !overwrite) {
    throw new KeysExist(env, existing);
  }
  return file;
}

function keysIn(text: string, names: Names): string[] {
  const there = new Set(settingsIn(text).map((setting) => setting.name));
  return allOf(names).filter((name) => there.has(name));
}

/** The file as it is now: an editor may have saved it while the database was made. */
async function written(env: string, names: Names, database: Database, overwrite = false): Promise<Got> {
  const { connectionString, claimUrl, expiresAt } = database;
  const directConnectionString = directOf(connectionString);
  try {
    const file = await checkedEnvFile(env, names, overwrite);
    const values = { pooled: connectionString, direct: directConnectionString, claimUrl, expiresAt };
    await replaceEnvFile(file, withDatabase(file.text, names, values));
  } catch (error) {
    const reason = error instanceof Problem ? error.message : String(error);
    throw new Problem(
      `${reason}\nThe database that was made meanwhile can be claimed at ${claimUrl}, else it expires by itself.`,
    );
  }
  return { ...database, directConnectionString, envFile: env, names, isSeeded: false };
}
