// node-postgres at the pooled host. `NODE_MODULES URI ADDRESS`; prints one line of JSON.

import dns from "node:dns";
import { createRequire } from "node:module";
import { pipeline } from "node:stream/promises";
import { Readable, Writable } from "node:stream";

const [modules, uri, address] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const pg = require("pg");
const copyStreams = require("pg-copy-streams");

const CROWD = 8;
const ROUNDS = 25;
const SLEEPS =
  "select count(*)::int as n from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'";

const where = new URL(uri);
const asked = dns.lookup;
dns.lookup = (name, ...more) => asked(name === where.hostname ? address : name, ...more);

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

const value = async (client, ...query) => Object.values((await client.query(...query)).rows[0])[0];
const numbers = Array.from({ length: CROWD }, (_, number) => number);
const sum = (counts) => counts.reduce((one, other) => one + Number(other), 0);

const one = await connect();
const other = await connect();
const many = await Promise.all(numbers.map(connect));

// It binds when the server offers to; what it chose is kept until the end of the login, so ask it on its way in.
async function isBound() {
  const client = new pg.Client(settings);
  let chosen = "";
  client.connection.once("authenticationSASLContinue", () => (chosen = client.saslSession.mechanism));
  await client.connect();
  await client.end();
  return chosen === "SCRAM-SHA-256-PLUS";
}

// Each has another statement under the same name, and settings of its own.
async function crowd() {
  const right = await Promise.all(
    many.map(async (client, number) => {
      await client.query(`set work_mem = '${1000 + number}kB'`);
      await client.query(`set my.word = 'word ${number}'`);
      let count = 0;
      for (let n = 0; n < ROUNDS; n++) {
        const query = { name: "same", text: `select $1::int * 1000 + ${number}`, values: [n] };
        count += (await value(client, query)) === n * 1000 + number;
      }
      return count;
    }),
  );
  const kept = await Promise.all(many.map((client) => value(client, "show work_mem")));
  const words = await Promise.all(many.map((client) => value(client, "select current_setting('my.word', true)")));
  return {
    right: sum(right),
    kept: sum(kept.map((text, number) => text === `${1000 + number}kB`)),
    words: sum(words.map((text, number) => text === `word ${number}`)),
  };
}

// As most programs use it: a pool of its own, a connection for each statement.
async function itsPool() {
  const pool = new pg.Pool(settings);
  const work = numbers.flatMap((number) =>
    Array.from({ length: ROUNDS }, async (_, n) => {
      const text = `select $1::int * 1000 + ${number}`;
      return (await value(pool, { name: `its ${number}`, text, values: [n] })) === n * 1000 + number;
    }),
  );
  const right = sum(await Promise.all(work));
  await pool.end();
  return right;
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
  await one.query("drop table if exists copied");
  await one.query("create table copied (n int, word text)");
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

async function recover() {
  await one.query("begin");
  const refused = [await state(one.query("select 1 / 0")), await state(one.query("select 1"))];
  await one.query("rollback");
  return { refused, recovered: await value(one, "select 7") };
}

async function listen() {
  try {
    await one.query("listen news");
    return [null, false];
  } catch (error) {
    return [error.code, `${error.message} ${error.hint}`.includes("direct host")];
  }
}

async function temporary() {
  const outside = await state(one.query("create temp table staying (n int)"));
  await one.query("begin");
  await one.query("create temp table passing (n int)");
  await one.query("insert into passing values (1), (2), (3)");
  const inside = await value(one, "select count(*)::int from passing");
  await one.query("commit");
  return [outside, inside, await state(one.query("select * from passing"))];
}

async function lock() {
  const ofSession = await state(one.query("select pg_advisory_lock(1)"));
  await one.query("begin");
  await one.query("select pg_advisory_xact_lock(1)");
  const meanwhile = await value(other, "select pg_try_advisory_xact_lock(1)");
  await one.query("commit");
  return [ofSession, meanwhile, await value(other, "select pg_try_advisory_xact_lock(1)")];
}

const seen = {
  client: `node-postgres ${require("pg/package.json").version}`,
  is_bound: await isBound(),
  ...(await crowd()),
  right_in_its_pool: await itsPool(),
  ...(await cancel()),
  ...(await copy()),
  streamed: await stream(),
  ...(await recover()),
  listened: await listen(),
  temporary: await temporary(),
  locked: await lock(),
};
await one.query("notify news, 'heard'");
await Promise.all([one, other, ...many].map((client) => client.end()));
console.log(JSON.stringify(seen));
