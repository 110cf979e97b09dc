/**
 * Locks an environment file, so that only one process at a time creates a database for it.
 *
 * The lock is a file next to the environment file that contains the host name and the process id of its owner. It is
 * removed when the work or the process ends. The lock of a killed process is stale: another process removes it as soon
 * as the owner is gone or, if the owner runs on another machine, after 10 minutes.
 */

import { randomBytes } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { link, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { fileProblem } from "./env-file.js";
import { isSystemError, Problem } from "./problem.js";

const RETRY_INTERVAL = 100;
const LOCK_TIMEOUT = 180_000;
const STALE_AFTER = 600_000;

export async function withLock<T>(path: string, work: () => Promise<T>, timeout = LOCK_TIMEOUT): Promise<T> {
  const lock = `${path}.get-db-lock`;
  const owner = `${hostname()} ${process.pid} ${randomBytes(6).toString("hex")}\n`;
  const release = () => releaseLock(lock, owner);
  await acquireLock(lock, owner, timeout);
  process.on("exit", release);
  try {
    return await work();
  } finally {
    process.off("exit", release);
    release();
  }
}

async function acquireLock(lock: string, owner: string, timeout: number): Promise<void> {
  const deadline = Date.now() + timeout;
  while (!(await tryLock(lock, owner))) {
    await removeStaleLock(lock);
    if (Date.now() > deadline) {
      throw new Problem(`Another process still uses this environment file; wait for it, or delete ${lock}.`);
    }
    await sleep(RETRY_INTERVAL);
  }
}

async function tryLock(lock: string, owner: string): Promise<boolean> {
  try {
    await writeFile(lock, owner, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (isSystemError(error) && error.code === "EEXIST") {
      return false;
    }
    throw fileProblem(`The folder ${dirname(lock)}`, "cannot be written", error);
  }
}

/** Renames the lock before it removes it, and restores it if another process has replaced the stale lock meanwhile. */
async function removeStaleLock(lock: string): Promise<void> {
  const owner = await readFile(lock, "utf8").catch(() => undefined);
  if (owner === undefined || !(await isStale(lock, owner))) {
    return;
  }
  const renamed = `${lock}.${randomBytes(6).toString("hex")}`;
  try {
    await rename(lock, renamed);
  } catch {
    return;
  }
  if ((await readFile(renamed, "utf8")) !== owner) {
    await link(renamed, lock).catch(() => undefined);
  }
  await rm(renamed, { force: true });
}

async function isStale(lock: string, owner: string): Promise<boolean> {
  const [host, pid] = owner.trim().split(" ");
  if (host === hostname() && pid) {
    return !isRunning(Number(pid));
  }
  const status = await stat(lock).catch(() => undefined);
  return status !== undefined && Date.now() - status.mtimeMs > STALE_AFTER;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isSystemError(error) && error.code === "EPERM";
  }
}

function releaseLock(lock: string, owner: string): void {
  try {
    if (readFileSync(lock, "utf8") === owner) {
      rmSync(lock, { force: true });
    }
  } catch {
    return;
  }
}
