/** An environment file on disk: checked before a database is created, and replaced atomically or left unchanged. */

import { randomBytes } from "node:crypto";
import { lstat, open, readFile, realpath, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

import { isSystemError, Problem } from "./problem.js";

const MAX_BYTES = 1_000_000;
const NEW_FILE_MODE = 0o600; // the file contains a password
const PERMISSION_BITS = 0o7777;
const WRITE_BITS = 0o222;

export interface EnvFile {
  /** The path as the user typed it. */
  readonly path: string;
  /** The resolved path. Symbolic links are followed to read, never to write. */
  readonly target: string;
  /** The content, decoded as latin1; empty if the file does not exist. */
  readonly text: string;
}

export async function readEnvFile(path: string): Promise<EnvFile> {
  const target = await resolveTarget(path);
  const status = await stat(target).catch(undefinedIfMissing);
  if (!status) {
    return { path, target, text: "" };
  }
  if (!status.isFile()) {
    const kind = status.isDirectory() ? "a folder" : "not a regular file";
    throw new Problem(`${path} is ${kind}; choose a file with --env.`);
  }
  if (status.size > MAX_BYTES) {
    throw new Problem(`${path} is too large for an environment file; choose another file with --env.`);
  }
  const text = await readFile(target, "latin1").catch((error: unknown) => {
    throw fileProblem(path, "cannot be read", error);
  });
  if (text.includes("\0")) {
    throw new Problem(`${path} is not UTF-8 text; choose another file with --env.`);
  }
  return { path, target, text };
}

/** Reads the file and checks that it can be replaced. The lock file shows whether its folder is writable. */
export async function readWritableEnvFile(path: string): Promise<EnvFile> {
  const file = await readEnvFile(path);
  if ((await lstat(path).catch(undefinedIfMissing))?.isSymbolicLink()) {
    throw new Problem(
      `${path} is a symbolic link, and no password is written through one; ` +
        `name the file itself with --env ${file.target}.`,
    );
  }
  const folder = dirname(file.target);
  if (!(await stat(folder).catch(undefinedIfMissing))?.isDirectory()) {
    throw new Problem(`The folder ${folder} of ${path} does not exist; create it, or choose a file with --env.`);
  }
  const status = await stat(file.target).catch(undefinedIfMissing);
  if (status && !(status.mode & WRITE_BITS)) {
    throw new Problem(`${path} is read-only; make it writable, or choose another file with --env.`);
  }
  if (status) {
    const handle = await open(file.target, "r+").catch((error: unknown) => {
      throw fileProblem(path, "cannot be written", error);
    });
    await handle.close();
  }
  return file;
}

async function resolveTarget(path: string): Promise<string> {
  if (!(await lstat(path).catch(undefinedIfMissing))) {
    return resolve(path);
  }
  const target = await realpath(path).catch(undefinedIfMissing);
  if (target === undefined) {
    throw new Problem(`${path} is a symbolic link to a missing file; remove the link, or create the file.`);
  }
  return target;
}

/** Replaces the file atomically. An existing file keeps its mode and, if possible, its owner. */
export async function replaceEnvFile({ path, target }: EnvFile, text: string): Promise<void> {
  const previous = await stat(target).catch(undefinedIfMissing);
  const temporary = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    const handle = await open(temporary, "wx", NEW_FILE_MODE);
    try {
      await handle.writeFile(text, "latin1");
      if (previous) {
        await restoreOwner(handle, previous.uid, previous.gid);
        await handle.chmod(previous.mode & PERMISSION_BITS);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw fileProblem(path, "cannot be written", error);
  }
  await syncFolder(dirname(target));
}

/** Only root may change the owner, so a failure is ignored. */
async function restoreOwner(handle: FileHandle, uid: number, gid: number): Promise<void> {
  const status = await handle.stat();
  if (status.uid !== uid || status.gid !== gid) {
    await handle.chown(uid, gid).catch(() => undefined);
  }
}

/** Makes the rename durable. Some systems cannot open a folder, so a failure is ignored. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

function undefinedIfMissing(error: unknown): undefined {
  if (isSystemError(error) && error.code === "ENOENT") {
    return undefined;
  }
  throw isSystemError(error) ? fileProblem(error.path ?? "The file", "cannot be accessed", error) : error;
}

export function fileProblem(path: string, failure: string, error: unknown): Problem {
  if (error instanceof Problem) {
    return error;
  }
  const reason = isSystemError(error) ? error.code : String(error);
  return new Problem(`${path} ${failure} (${reason}); fix this, or choose another file with --env.`);
}
