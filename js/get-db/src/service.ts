/** Calls the service that creates databases, and translates every failure to a `Problem`. */

import { isConnectionString } from "./connection.js";
import { isSystemError, Problem, sanitize } from "./problem.js";

const MAX_BYTES = 1_000_000;
const RESPONSE_TIMEOUT = 60_000;
// Values that need no quotes in an environment file and are not expanded there.
const PRINTABLE = /^[\x21-\x7e]+$/;
const SPECIAL = /["'`$#\\]/;

export interface Database {
  readonly id: string;
  readonly status: string;
  readonly projectId: string;
  /** The pooled connection string. */
  readonly connectionString: string;
  readonly claimUrl: string;
  readonly expiresAt: Date;
}

export interface CreateDatabaseOptions {
  readonly host: string;
  readonly ref: string;
  readonly logicalReplication?: boolean;
  /** How long the platform may take to respond, in milliseconds. */
  readonly timeout?: number;
}

export async function createDatabase(options: CreateDatabaseOptions): Promise<Database> {
  const { host, ref, logicalReplication = false, timeout = RESPONSE_TIMEOUT } = options;
  const reply = await post(host, timeout, { ref, enable_logical_replication: logicalReplication });
  const content = parseObject(reply.text);
  if (reply.status >= 300 || !content) {
    throw errorProblem(host, reply, content);
  }
  const database = parseDatabase(content);
  if (!database) {
    throw new Problem(`The response of ${host} is not a database; check the URL (--host or INSTANT_BASE_URL).`);
  }
  return database;
}

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

type JsonObject = Readonly<Record<string, unknown>>;

async function post(host: string, timeout: number, body: object): Promise<Reply> {
  try {
    const response = await fetch(`${host}/api/v1/database`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify(body),
      redirect: "manual",
      signal: AbortSignal.timeout(timeout),
    });
    return { status: response.status, headers: response.headers, text: await readText(response) };
  } catch (error) {
    throw connectionProblem(host, timeout, error);
  }
}

/** Returns an empty text if the response is too large. */
async function readText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) {
      return "";
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function connectionProblem(host: string, timeout: number, error: unknown): Problem {
  if (error instanceof Error && error.name === "TimeoutError") {
    return new Problem(`${host} did not respond within ${timeout / 1000} seconds; try again later.`);
  }
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const reason = isSystemError(cause) ? cause.code : sanitize(String(cause));
  return new Problem(
    `${host} cannot be reached (${reason}); check that the platform is running and its URL is correct ` +
      "(--host or INSTANT_BASE_URL).",
  );
}

function errorProblem(host: string, { status, headers }: Reply, content: JsonObject | undefined): Problem {
  const message = [content?.["message"], content?.["hint"]]
    .filter((text) => typeof text === "string")
    .map((text) => endSentence(sanitize(text)))
    .join(" ");
  if (status >= 300 && status < 400) {
    const location = sanitize(headers.get("location") ?? "an unknown URL");
    return new Problem(`${host} redirects to ${location}; set --host to that URL.`);
  }
  if (status === 429) {
    const advice = retryAdvice(headers);
    return new Problem(
      `${host} creates no more databases at the moment (status 429). ${message} ${advice}`.replace(/ +/g, " "),
    );
  }
  if (!message) {
    return new Problem(
      `The response of ${host} (status ${status}) is not from a Bough platform; ` +
        "check the URL (--host or INSTANT_BASE_URL), or try again later.",
    );
  }
  const advice = status >= 500 ? ` ${retryAdvice(headers)}` : "";
  return new Problem(`${host} created no database (status ${status}): ${message}${advice}`);
}

function endSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function retryAdvice(headers: Headers): string {
  const seconds = Number(headers.get("retry-after") ?? "");
  return Number.isInteger(seconds) && seconds > 0 ? `Try again in ${seconds} seconds.` : "Try again later.";
}

function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}

function parseDatabase(content: JsonObject): Database | undefined {
  const [id, status, projectId, connectionString, claimUrl] = [
    "id",
    "status",
    "neon_project_id",
    "connection_string",
    "claim_url",
  ].map((field) => parseText(content[field]));
  const expiresAt = new Date(String(content["expires_at"]));
  if (!id || !status || !projectId || !connectionString || !claimUrl || Number.isNaN(expiresAt.getTime())) {
    return undefined;
  }
  if (!isConnectionString(connectionString) || !isHttpUrl(claimUrl)) {
    return undefined;
  }
  return { id, status, projectId, connectionString, claimUrl, expiresAt };
}

function parseText(value: unknown): string | undefined {
  return typeof value === "string" && PRINTABLE.test(value) && !SPECIAL.test(value) ? value : undefined;
}

export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}
