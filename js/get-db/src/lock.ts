/**
 * One at a time at an environment file, among all processes that ask here.
 *
 * A lock is a file beside it, which names its holder. It goes with the work or with the process; what a killed process
 * left is taken over by the next one, when that process is gone or, on another machine, after a while.
 */

import { randomBytes } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { link, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { refused } from "./env-file.js";
import { isSystemError, Problem } from "./problem.js";

const PAUSE = 100;
const PATIENCE = 180_000;
const FORGOTTEN = 600_000;

export async function alone<T>(path: string, work: () => Promise<T>, patience = PATIENCE): Promise<T> {
  const lock = `${path}.get-db-lock`;
  const mine = `${hostname()} ${process.pid} ${randomBytes(6).toString("hex")}\n`;
  const release = () => removeOwn(lock, mine);
  await taken(lock, mine, patience);
  process.on("exit", release);
  try {
    return await work();
  } finally {
    process.off("exit", release);
    release();
  }
}

async function taken(lock: string, mine: string, patience: number): Promise<void> {
  const deadline = Date.now() + patience;
  while (!(await isPlaced(lock, mine))) {
    await removeForgotten(lock);
    if (Date.now() > deadline) {
      throw new Problem(`Another process is still at work on this environment file: wait for it, or delete ${lock}.`);
    }
    await pause(PAUSE);
  }
}

async function isPlaced(lock: string, mine: string): Promise<boolean> {
  try {
    await writeFile(lock, mine, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (isSystemError(error) && error.code === "EEXIST") {
      return false;
    }
    throw refused(`The folder ${dirname(lock)}`, "cannot be written to", error);
  }
}

/** Another may take it over at the same moment: it is moved away first, and put back if it is not the forgotten one. */
async function removeForgotten(lock: string): Promise<void> {
  const seen = await readFile(lock, "utf8").catch(() => undefined);
  if (seen === undefined || !(await isForgotten(lock, seen))) {
    return;
  }
  const aside = `${lock}.${randomBytes(6).toString("hex")}`;
  try {
    await rename(lock, aside);
  } catch {
    return;
  }
  if ((await readFile(aside, "utf8")) !== seen) {
    await link(aside, lock).catch(() => undefined);
  }
  await rm(aside, { force: true });
}

async function isForgotten(lock: string, holder: string): Promise<boolean> {
  const [host, pid] = holder.trim().split(" ");
  if (host === hostname() && pid) {
    return !isAlive(Number(pid));
  }
  const placed = await stat(lock).catch(() => undefined);
  return placed !== undefined && Date.now() - placed.mtimeMs > FORGOTTEN;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isSystemError(error) && error.code === "EPERM";
  }
}

function removeOwn(lock: string, mine: string): void {
  try {
    if (readFileSync(lock, "utf8") === mine) {
      rmSync(lock, { force: true });
    }
  } catch {
    return;
  }
}
