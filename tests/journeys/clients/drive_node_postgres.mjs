// node-postgres does what programs do with a database. `NODE_MODULES URI [ADDRESS]`; prints one line of JSON.

import dns from "node:dns";
import { createRequire } from "node:module";
import { pipeline } from "node:stream/promises";
import { Readable, Writable } from "node:stream";

const [modules, uri, address] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const pg = require("pg");
const copyStreams = require("pg-copy-streams");

const where = new URL(uri);
const SLEEPS =
  "select count(*)::int as n from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

if (address) {
  const asked = dns.lookup;
  dns.lookup = (name, ...more) => asked(name === where.hostname ? address : name, ...more);
}

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

async function connect() {
  const client = new pg.Client(settings);
  await client.connect();
  return client;
}

async function state(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code;
  }
}

const one = await connect();
const other = await connect();
const value = async (client, ...query) => Object.values((await client.query(...query)).rows[0])[0];

// It binds when the server offers to; what it chose is kept until the end of the login, so ask it on its way in.
async function isBound() {
  const client = new pg.Client(settings);
  let chosen = "";
  client.connection.once("authenticationSASLContinue", () => (chosen = client.saslSession.mechanism));
  await client.connect();
  await client.end();
  return chosen === "SCRAM-SHA-256-PLUS";
}

async function prepared() {
  const squares = [];
  for (let n = 1; n <= 10; n++) {
    squares.push(await value(one, { name: "square", text: "select $1::int * $1::int", values: [n] }));
  }
  return squares;
}

async function cancel() {
  const sleep = new pg.Query("select pg_sleep(60)");
  const ended = new Promise((resolve, reject) => sleep.on("end", resolve).on("error", reject));
  one.query(sleep);
  while ((await value(other, SLEEPS)) === 0);
  new pg.Client(settings).cancel(one, sleep);
  return { cancelled: await state(ended), after_cancel: await value(one, "select 1") };
}

async function copy() {
  await one.query("create temp table copied (n int, word text)");
  const rows = Array.from({ length: 10000 }, (_, n) => `${n}\tword ${n}\n`);
  await pipeline(Readable.from(rows), one.query(copyStreams.from("copy copied from stdin")));
  let size = 0;
  const count = new Writable({ write: (piece, _encoding, done) => ((size += piece.length), done()) });
  await pipeline(one.query(copyStreams.to("copy (select * from copied order by n) to stdout")), count);
  return { copied: await value(one, "select count(*)::int from copied"), copied_bytes: size };
}

function stream() {
  let size = 0;
  const query = new pg.Query("select repeat('x', 10240) as x from generate_series(1, 10240)");
  return new Promise((resolve, reject) => {
    query.on("row", (row) => (size += row.x.length));
    query.on("end", () => resolve(size)).on("error", reject);
    one.query(query);
  });
}

async function notify() {
  const words = [];
  const heard = new Promise((resolve) =>
    one.on("notification", (note) => words.push(note.payload) === 2 && resolve(words)),
  );
  await one.query("listen news");
  await other.query("select pg_notify('news', word) from unnest(array['one', 'two']) word");
  return heard;
}

async function recover() {
  await one.query("begin");
  const refused = [await state(one.query("select 1 / 0")), await state(one.query("select 1"))];
  await one.query("rollback");
  return { refused, recovered: await value(one, "select 7") };
}

const seen = {
  client: `node-postgres ${require("pg/package.json").version}`,
  is_bound: await isBound(),
  prepared: await prepared(),
  statements: await value(one, "select count(*)::int from pg_prepared_statements"),
  ...(await cancel()),
  ...(await copy()),
  streamed: await stream(),
  notified: await notify(),
  ...(await recover()),
};
await one.end();
await other.end();
console.log(JSON.stringify(seen));
