// What node-postgres does at either host.

import { require, versionOf, where } from "./given.mjs";
import { copyIn, sizeOf, state } from "./plain.mjs";

const pg = require("pg");
const copyStreams = require("pg-copy-streams");

const SLEEPS =
  "select count(*)::int as n from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

export const CLIENT = `node-postgres ${versionOf("pg")}`;

// It warns of sslmode=require in a URI, so it is told in its own way.
const settings = {
  host: where.hostname,
  port: Number(where.port || 5432),
  user: decodeURIComponent(where.username),
  password: decodeURIComponent(where.password),
  database: decodeURIComponent(where.pathname.slice(1)),
  ssl: { rejectUnauthorized: false, servername: where.hostname },
  enableChannelBinding: true,
};

export const makePool = () => new pg.Pool(settings);

export async function connect() {
  const client = new pg.Client(settings);
  await client.connect();
  return client;
}

export const value = async (client, ...query) => Object.values((await client.query(...query)).rows[0])[0];

// It binds when the server offers to; what it chose is kept until the end of the login, so ask it on its way in.
export async function isBound() {
  const client = new pg.Client(settings);
  let chosen = "";
  client.connection.once("authenticationSASLContinue", () => (chosen = client.saslSession.mechanism));
  await client.connect();
  await client.end();
  return chosen === "SCRAM-SHA-256-PLUS";
}

export async function cancel(one, other) {
  const sleep = new pg.Query("select pg_sleep(60)");
  const ended = new Promise((resolve, reject) => sleep.on("end", resolve).on("error", reject));
  one.query(sleep);
  while ((await value(other, SLEEPS)) === 0);
  new pg.Client(settings).cancel(one, sleep);
  return { cancelled: await state(ended), after_cancel: await value(one, "select 1") };
}

export async function copy(one, table) {
  for (const statement of table) await one.query(statement);
  await copyIn(one.query(copyStreams.from("copy copied from stdin")));
  const size = await sizeOf(one.query(copyStreams.to("copy (select * from copied order by n) to stdout")));
  return { copied: await value(one, "select count(*)::int from copied"), copied_bytes: size };
}

export function stream(one) {
  let size = 0;
  const query = new pg.Query("select repeat('x', 10240) as x from generate_series(1, 10240)");
  return new Promise((resolve, reject) => {
    query.on("row", (row) => (size += row.x.length));
    query.on("end", () => resolve(size)).on("error", reject);
    one.query(query);
  });
}

export async function recover(one) {
  await one.query("begin");
  const refused = [await state(one.query("select 1 / 0")), await state(one.query("select 1"))];
  await one.query("rollback");
  return { refused, recovered: await value(one, "select 7") };
}
