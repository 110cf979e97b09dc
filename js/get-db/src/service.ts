/** The service that makes databases: one call, and every way in which it can go wrong. */

import { isConnectionString } from "./connection.js";
import { isSystemError, plain, Problem } from "./problem.js";

const MOST_BYTES = 1_000_000;
const PATIENCE = 60_000;
// What can stand unquoted in an environment file and means itself there.
const WORD = /^[\x21-\x7e]+$/;
const MEANS_MORE = /["'`$#\\]/;

export interface Database {
  readonly id: string;
  readonly status: string;
  readonly projectId: string;
  /** With pooling. */
  readonly connectionString: string;
  readonly claimUrl: string;
  readonly expiresAt: Date;
}

export interface Order {
  readonly host: string;
  readonly ref: string;
  readonly logicalReplication?: boolean;
  readonly patience?: number;
}

export async function createDatabase(order: Order): Promise<Database> {
  const { host, ref, logicalReplication = false, patience = PATIENCE } = order;
  const answer = await asked(host, patience, { ref, enable_logical_replication: logicalReplication });
  const said = parsed(answer.text);
  if (answer.status >= 300 || !said) {
    throw refusal(host, answer, said);
  }
  const database = understood(said);
  if (!database) {
    throw new Problem(`What ${host} answered is not a database: check the address (--host or INSTANT_BASE_URL).`);
  }
  return database;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

type Said = Readonly<Record<string, unknown>>;

async function asked(host: string, patience: number, body: object): Promise<Answer> {
  try {
    const answer = await fetch(`${host}/api/v1/database`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify(body),
      redirect: "manual",
      signal: AbortSignal.timeout(patience),
    });
    return { status: answer.status, headers: answer.headers, text: await textOf(answer) };
  } catch (error) {
    throw unreachable(host, patience, error);
  }
}

async function textOf(answer: Response): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of answer.body ?? []) {
    size += piece.length;
    if (size > MOST_BYTES) {
      return "";
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

function unreachable(host: string, patience: number, error: unknown): Problem {
  if (error instanceof Error && error.name === "TimeoutError") {
    return new Problem(`${host} did not answer within ${patience / 1000} seconds: try again later.`);
  }
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const reason = isSystemError(cause) ? cause.code : plain(String(cause));
  return new Problem(
    `${host} cannot be reached (${reason}): start the platform there, ` +
      "or give its address with --host or INSTANT_BASE_URL.",
  );
}

function refusal(host: string, { status, headers }: Answer, said: Said | undefined): Problem {
  const sentence = [said?.["message"], said?.["hint"]]
    .filter((each) => typeof each === "string")
    .map((each) => plain(each));
  const message = sentence.map((each) => (/[.!?]$/.test(each) ? each : `${each}.`)).join(" ");
  if (status >= 300 && status < 400) {
    return new Problem(
      `${host} sends elsewhere, to ${plain(headers.get("location") ?? "nowhere")}: give --host that address.`,
    );
  }
  if (status === 429) {
    return new Problem(
      `${host} makes no more databases for you just now. ${message} ${later(headers)}`.replace(/ +/g, " "),
    );
  }
  if (!message) {
    return new Problem(
      `What answers at ${host} (with status ${status}) is not a platform that makes databases, or is in trouble: ` +
        "check the address (--host or INSTANT_BASE_URL), or try again later.",
    );
  }
  const next = status >= 500 ? ` ${later(headers)}` : "";
  return new Problem(`${host} made no database (status ${status}): ${message}${next}`);
}

function later(headers: Headers): string {
  const seconds = Number(headers.get("retry-after") ?? "");
  return Number.isInteger(seconds) && seconds > 0 ? `Try again in ${seconds} seconds.` : "Try again later.";
}

function parsed(text: string): Said | undefined {
  try {
    const said: unknown = JSON.parse(text);
    return typeof said === "object" && said !== null && !Array.isArray(said) ? (said as Said) : undefined;
  } catch {
    return undefined;
  }
}

function understood(said: Said): Database | undefined {
  const words = ["id", "status", "neon_project_id", "connection_string", "claim_url"].map((field) =>
    wordOf(said[field]),
  );
  const [id, status, projectId, connectionString, claimUrl] = words;
  const expiresAt = new Date(String(said["expires_at"]));
  if (!id || !status || !projectId || !connectionString || !claimUrl || Number.isNaN(expiresAt.getTime())) {
    return undefined;
  }
  if (!isConnectionString(connectionString) || !isWebAddress(claimUrl)) {
    return undefined;
  }
  return { id, status, projectId, connectionString, claimUrl, expiresAt };
}

function wordOf(value: unknown): string | undefined {
  return typeof value === "string" && WORD.test(value) && !MEANS_MORE.test(value) ? value : undefined;
}

export function isWebAddress(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
