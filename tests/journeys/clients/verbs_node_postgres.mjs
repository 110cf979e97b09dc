// Actions of node-postgres at the direct and the pooled host.

import { getVersion, require, target } from "./given.mjs";
import { countBytes, getSqlstate, writeRows } from "./plain.mjs";

const pg = require("pg");
const copyStreams = require("pg-copy-streams");

const COUNT_SLEEPING =
  "select count(*)::int as n from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

export const CLIENT = `node-postgres ${getVersion("pg")}`;

// Not a URI, because node-postgres warns about sslmode=require in it.
const settings = {
  host: target.hostname,
  port: Number(target.port || 5432),
  user: decodeURIComponent(target.username),
  password: decodeURIComponent(target.password),
  database: decodeURIComponent(target.pathname.slice(1)),
  ssl: { rejectUnauthorized: false, servername: target.hostname },
  enableChannelBinding: true,
};

export const makePool = () => new pg.Pool(settings);

export async function connect() {
  const client = new pg.Client(settings);
  await client.connect();
  return client;
}

export const fetchValue = async (client, ...query) => Object.values((await client.query(...query)).rows[0])[0];

// node-postgres binds the channel if the server offers it. The mechanism is known only during the login.
export async function isBound() {
  const client = new pg.Client(settings);
  let mechanism = "";
  client.connection.once("authenticationSASLContinue", () => (mechanism = client.saslSession.mechanism));
  await client.connect();
  await client.end();
  return mechanism === "SCRAM-SHA-256-PLUS";
}

export async function cancel(session, other) {
  const sleep = new pg.Query("select pg_sleep(60)");
  const result = new Promise((resolve, reject) => sleep.on("end", resolve).on("error", reject));
  session.query(sleep);
  while ((await fetchValue(other, COUNT_SLEEPING)) === 0);
  new pg.Client(settings).cancel(session, sleep);
  return { cancelled: await getSqlstate(result), after_cancel: await fetchValue(session, "select 1") };
}

export async function copy(session, table) {
  for (const statement of table) await session.query(statement);
  await writeRows(session.query(copyStreams.from("copy copied from stdin")));
  const size = await countBytes(session.query(copyStreams.to("copy (select * from copied order by n) to stdout")));
  return { copied: await fetchValue(session, "select count(*)::int from copied"), copied_bytes: size };
}

export function stream(session) {
  let size = 0;
  const query = new pg.Query("select repeat('x', 10240) as x from generate_series(1, 10240)");
  return new Promise((resolve, reject) => {
    query.on("row", (row) => (size += row.x.length));
    query.on("end", () => resolve(size)).on("error", reject);
    session.query(query);
  });
}

export async function recover(session) {
  await session.query("begin");
  const refused = [await getSqlstate(session.query("select 1 / 0")), await getSqlstate(session.query("select 1"))];
  await session.query("rollback");
  return { refused, recovered: await fetchValue(session, "select 7") };
}
