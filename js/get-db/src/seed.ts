/**
 * Runs an SQL file in a new database.
 *
 * The whole file is sent as one query, so Postgres runs it in one transaction. If it fails, the line is found from the
 * position that Postgres reports or else from the number of statements that completed.
 */

import dns from "node:dns";
import { readFile, stat } from "node:fs/promises";
import { Socket, type LookupFunction, type TcpNetConnectOpts } from "node:net";

import type { ClientConfig, DatabaseError } from "pg";

import { parseConnectionString, type ConnectionParameters } from "./connection.js";
import { isSystemError, Problem, sanitize } from "./problem.js";
import { statementStarts } from "./statements.js";

const MAX_BYTES = 256_000_000;
const CONNECT_TIMEOUT = 60_000;
// A file that ends a transaction itself runs in more than one transaction.
const TRANSACTION_END = /(?:^|;|\*\/)\s*(?:commit|end|prepare\s+transaction)\b/im;
const COPY_FROM_STDIN = /\bcopy\b[^;]*\bfrom\s+stdin\b/i;

export interface Seed {
  readonly path: string;
  readonly sql: string;
}

export async function readSeed(path: string): Promise<Seed> {
  try {
    const status = await stat(path);
    if (!status.isFile() || status.size > MAX_BYTES) {
      throw new Problem(
        `The seed ${path} is ${status.isFile() ? "too large" : "not a file"}; choose an SQL file with --seed.`,
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
    throw new Problem(`The seed ${path} ${reason}; choose an SQL file with --seed.`);
  }
}

export async function runSeed({ path, sql }: Seed, connectionString: string): Promise<void> {
  const { default: pg } = await import("pg");
  const parameters = parseConnectionString(connectionString);
  const client = new pg.Client({ ...clientConfig(parameters), stream: () => createSocket(parameters.host) });
  client.on("error", () => undefined); // the query reports the same error
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => undefined);
    throw new Problem(
      `The seed ${path} was not run, because connecting to ${parameters.host} failed: ${sanitize(describe(error))}.`,
    );
  }
  let completed = 0;
  client.connection.on("commandComplete", () => (completed += 1));
  try {
    await client.query(sql);
  } catch (error) {
    throw new Problem(describeFailure({ path, sql }, error, completed));
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Follows `sslmode`: `require` encrypts and does not verify the certificate. */
function clientConfig({ host, port, user, password, database, sslmode }: ConnectionParameters): ClientConfig {
  const ssl = sslmode === "disable" ? false : { rejectUnauthorized: sslmode.startsWith("verify-") };
  const options = { connectionTimeoutMillis: CONNECT_TIMEOUT, enableChannelBinding: true };
  return { host, port, user, password, database, ssl, ...options };
}

/** Names under `localhost` mean this machine, even if the system does not resolve them (RFC 6761, section 6.3). */
function createSocket(host: string): Socket {
  const socket = new Socket();
  if (host === "localhost" || host.endsWith(".localhost")) {
    const lookup: LookupFunction = (_name, options, callback) => dns.lookup("localhost", options, callback);
    const connect: (options: TcpNetConnectOpts) => Socket = socket.connect;
    socket.connect = ((port: number) => connect.call(socket, { port, host, lookup })) as typeof socket.connect;
  }
  return socket;
}

function describeFailure({ path, sql }: Seed, error: unknown, completed: number): string {
  const position = findPosition(sql, error, completed);
  const lineNumber = sql.slice(0, position).split("\n").length;
  const line = sql.split("\n", lineNumber).at(-1) ?? "";
  const outcome = TRANSACTION_END.test(sql)
    ? "The seed ends transactions itself, so earlier changes may have been kept."
    : "No change of the seed was kept.";
  const advice = COPY_FROM_STDIN.test(sql) ? " (COPY … FROM stdin works only in psql; use INSERT instead.)" : "";
  return `${path}:${lineNumber}: ${sanitize(describe(error))}${advice}\n  ${sanitize(line, 160)}\n${outcome}`;
}

function findPosition(sql: string, error: unknown, completed: number): number {
  const position = isPostgresError(error) ? Number(error.position ?? Number.NaN) : Number.NaN;
  if (Number.isInteger(position)) {
    return indexOfCharacter(sql, position - 1);
  }
  const starts = statementStarts(sql);
  return starts[completed] ?? starts.at(-1) ?? 0;
}

/** Converts a position of Postgres, which counts characters, to an index in UTF-16 code units. */
function indexOfCharacter(text: string, count: number): number {
  let index = 0;
  for (let passed = 0; passed < count && index < text.length; passed += 1) {
    index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  }
  return index;
}

function describe(error: unknown): string {
  if (error instanceof AggregateError && error.errors[0] instanceof Error) {
    return error.errors[0].message;
  }
  if (isPostgresError(error)) {
    return [error.message, error.detail, error.hint].filter(Boolean).join("; ");
  }
  return error instanceof Error ? error.message : String(error);
}

function isPostgresError(error: unknown): error is DatabaseError {
  return error instanceof Error && "severity" in error;
}
