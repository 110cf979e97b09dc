/**
 * Run an SQL file against a database that was just made.
 *
 * The whole file is one query, so Postgres runs it as one transaction. When it fails, the failing line is found: by the
 * position that Postgres names, or else by how many statements were done before.
 */

import dns from "node:dns";
import { readFile, stat } from "node:fs/promises";
import { Socket, type LookupFunction, type TcpNetConnectOpts } from "node:net";

import type { ClientConfig, DatabaseError } from "pg";

import { targetOf, type Target } from "./connection.js";
import { isSystemError, plain, Problem } from "./problem.js";
import { statementStarts } from "./statements.js";

const MOST_BYTES = 256_000_000;
const PATIENCE = 60_000;
// Behind a COMMIT of its own the file is more than one transaction.
const COMMITS = /(?:^|;|\*\/)\s*(?:commit|end|prepare\s+transaction)\b/im;
const FROM_STDIN = /\bcopy\b[^;]*\bfrom\s+stdin\b/i;

export interface Seed {
  readonly path: string;
  readonly sql: string;
}

export async function readSeed(path: string): Promise<Seed> {
  try {
    const found = await stat(path);
    if (!found.isFile() || found.size > MOST_BYTES) {
      throw new Problem(
        `The seed ${path} is ${found.isFile() ? "too long" : "not a file"}: name an SQL file with --seed.`,
      );
    }
    const sql = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(path));
    if (sql.includes("\0")) {
      throw new TypeError();
    }
    return { path, sql };
  } catch (error) {
    if (error instanceof Problem) {
      throw error;
    }
    const reason =
      isSystemError(error) && !(error instanceof TypeError) ? `cannot be read (${error.code})` : "is not UTF-8 text";
    throw new Problem(`The seed ${path} ${reason}: name an SQL file with --seed.`);
  }
}

export async function runSeed({ path, sql }: Seed, connection: string): Promise<void> {
  const { default: pg } = await import("pg");
  const target = targetOf(connection);
  const client = new pg.Client({ ...parameters(target), stream: () => socketTo(target.host) });
  client.on("error", () => undefined); // the query, too, is told
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => undefined);
    throw new Problem(`The seed ${path} did not run: ${target.host} let nobody in (${plain(messageOf(error))}).`);
  }
  let done = 0;
  client.connection.on("commandComplete", () => (done += 1));
  try {
    await client.query(sql);
  } catch (error) {
    throw new Problem(failure({ path, sql }, error, done));
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** As `sslmode` says: `require` encrypts and asks for no certificate that is known here. */
function parameters({ host, port, user, password, database, sslmode }: Target): ClientConfig {
  const ssl = sslmode === "disable" ? false : { rejectUnauthorized: sslmode.startsWith("verify-") };
  const more = { connectionTimeoutMillis: PATIENCE, enableChannelBinding: true };
  return { host, port, user, password, database, ssl, ...more };
}

/** Names under `localhost` are this machine, also where the system's resolver does not know them (RFC 6761, 6.3). */
function socketTo(host: string): Socket {
  const socket = new Socket();
  if (host === "localhost" || host.endsWith(".localhost")) {
    const lookup: LookupFunction = (_name, options, found) => dns.lookup("localhost", options, found);
    const connect: (where: TcpNetConnectOpts) => Socket = socket.connect;
    socket.connect = ((port: number) => connect.call(socket, { port, host, lookup })) as typeof socket.connect;
  }
  return socket;
}

function failure({ path, sql }: Seed, error: unknown, done: number): string {
  const at = placeOf(sql, error, done);
  const before = sql.slice(0, at).split("\n");
  const line = sql.split("\n", before.length).at(-1) ?? "";
  const kept = COMMITS.test(sql)
    ? "What stands before a COMMIT in it may have been kept; nothing else was."
    : "Nothing of the seed was kept.";
  const copies = FROM_STDIN.test(sql) ? " (COPY … FROM stdin is for psql: use INSERT here.)" : "";
  return `${path}:${before.length}: ${plain(messageOf(error))}${copies}\n  ${plain(line, 160)}\n${kept}`;
}

function placeOf(sql: string, error: unknown, done: number): number {
  const position = isFromPostgres(error) ? Number(error.position ?? Number.NaN) : Number.NaN;
  if (Number.isInteger(position)) {
    return indexOfCharacter(sql, position - 1);
  }
  const starts = statementStarts(sql);
  return starts[done] ?? starts.at(-1) ?? 0;
}

/** Postgres counts characters; some of them are two units of a string here. */
function indexOfCharacter(text: string, count: number): number {
  let at = 0;
  for (let passed = 0; passed < count && at < text.length; passed += 1) {
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  }
  return at;
}

function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors[0] instanceof Error) {
    return error.errors[0].message;
  }
  if (isFromPostgres(error)) {
    return [error.message, error.detail, error.hint].filter(Boolean).join("; ");
  }
  return error instanceof Error ? error.message : String(error);
}

function isFromPostgres(error: unknown): error is DatabaseError {
  return error instanceof Error && "severity" in error;
}
