/** An environment file on disk: looked at before anything is made, and replaced as a whole or not at all. */

import { randomBytes } from "node:crypto";
import { lstat, open, readFile, realpath, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

import { isSystemError, Problem } from "./problem.js";

const MOST_BYTES = 1_000_000;
const MINE_ALONE = 0o600;
const PERMISSIONS = 0o7777;
const MAY_WRITE = 0o222;

export interface EnvFile {
  /** As it was named. */
  readonly path: string;
  /** Where it is: a link is followed to read, never to write. */
  readonly target: string;
  /** Its bytes as latin1; empty when there is none yet. */
  readonly text: string;
}

export async function findEnvFile(path: string): Promise<EnvFile> {
  const target = await targetOf(path);
  const found = await stat(target).catch(absent);
  if (!found) {
    return { path, target, text: "" };
  }
  if (!found.isFile()) {
    throw new Problem(`${path} is ${found.isDirectory() ? "a folder" : "not a plain file"}: name a file with --env.`);
  }
  if (found.size > MOST_BYTES) {
    throw new Problem(`${path} is too long for an environment file: name another one with --env.`);
  }
  const text = await readFile(target, "latin1").catch((error: unknown) => {
    throw refused(path, "cannot be read", error);
  });
  if (text.includes("\0")) {
    throw new Problem(`${path} is not text in UTF-8: name another file with --env.`);
  }
  return { path, target, text };
}

/** The same, when it may be written to; whether its folder may, the lock shows that is placed there. */
export async function findWritableEnvFile(path: string): Promise<EnvFile> {
  const file = await findEnvFile(path);
  if ((await lstat(path).catch(absent))?.isSymbolicLink()) {
    throw new Problem(`${path} is a link, and no password is written through one: name the file itself, --env ${file.target}.`);
  }
  const folder = dirname(file.target);
  if (!(await stat(folder).catch(absent))?.isDirectory()) {
    throw new Problem(`There is no folder ${folder} for ${path}: make it, or name another file with --env.`);
  }
  const found = await stat(file.target).catch(absent);
  if (found && !(found.mode & MAY_WRITE)) {
    throw new Problem(`${path} is read-only: allow writing to it, or name another file with --env.`);
  }
  if (found) {
    const opened = await open(file.target, "r+").catch((error: unknown) => {
      throw refused(path, "cannot be written to", error);
    });
    await opened.close();
  }
  return file;
}

async function targetOf(path: string): Promise<string> {
  const named = await lstat(path).catch(absent);
  if (!named) {
    return resolve(path);
  }
  const target = await realpath(path).catch(absent);
  if (target === undefined) {
    throw new Problem(`${path} is a link to a file that is not there: make that file, or remove the link.`);
  }
  return target;
}

/** At once for whoever reads it, with the permissions it had; one that is new is for its owner alone. */
export async function replaceEnvFile({ path, target }: EnvFile, text: string): Promise<void> {
  const before = await stat(target).catch(absent);
  const draft = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    const file = await open(draft, "wx", MINE_ALONE);
    try {
      await file.writeFile(text, "latin1");
      if (before) {
        await given(file, before.uid, before.gid);
        await file.chmod(before.mode & PERMISSIONS);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, target);
  } catch (error) {
    await rm(draft, { force: true });
    throw refused(path, "could not be written", error);
  }
  await madeLasting(dirname(target));
}

/** To its old owner, where we may give things away. */
async function given(file: FileHandle, uid: number, gid: number): Promise<void> {
  const now = await file.stat();
  if (now.uid !== uid || now.gid !== gid) {
    await file.chown(uid, gid).catch(() => undefined);
  }
}

/** The new name, which is in the folder; not every system lets a folder be opened. */
async function madeLasting(folder: string): Promise<void> {
  const opened = await open(folder, "r").catch(() => undefined);
  await opened?.sync().catch(() => undefined);
  await opened?.close();
}

function absent(error: unknown): undefined {
  if (isSystemError(error) && error.code === "ENOENT") {
    return undefined;
  }
  throw isSystemError(error) ? refused(error.path ?? "The file", "cannot be looked at", error) : error;
}

export function refused(path: string, what: string, error: unknown): Problem {
  if (error instanceof Problem) {
    return error;
  }
  const reason = isSystemError(error) ? error.code : String(error);
  return new Problem(`${path} ${what} (${reason}): mend that, or name another file with --env.`);
}
