// postgres.js at the pooled host, with its defaults. `NODE_MODULES URI ADDRESS`; prints one line of JSON.

import dns from "node:dns";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pipeline } from "node:stream/promises";
import { Readable, Writable } from "node:stream";

const [modules, uri, address] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const postgres = require("postgres");

const CROWD = 8;
const ROUNDS = 25;

const where = new URL(uri);
where.searchParams.delete("channel_binding"); // it cannot, and takes the word for a setting of the server
const asked = dns.lookup;
dns.lookup = (name, ...more) => asked(name === where.hostname ? address : name, ...more);

// Most of this is about sessions: one connection each. `pool` is how programs use it, with all its defaults.
const session = () => postgres(where.href, { max: 1 });
const [one, other] = [session(), session()];
const numbers = Array.from({ length: CROWD }, (_, number) => number);
const many = numbers.map(session);
const pool = postgres(where.href);

const sum = (counts) => counts.reduce((some, more) => some + Number(more), 0);
const value = async (query) => Object.values((await query)[0])[0];

async function state(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code;
  }
}

// Everything is prepared, each under a name that comes with the text; settings are each one's own.
async function crowd() {
  const right = await Promise.all(
    many.map(async (sql, number) => {
      await sql.unsafe(`set work_mem = '${1000 + number}kB'`);
      await sql.unsafe(`set my.word = 'word ${number}'`);
      let count = 0;
      for (let n = 0; n < ROUNDS; n++) {
        count += (await value(sql`select ${n}::int * 1000 + ${number}::int`)) === n * 1000 + number;
      }
      return count;
    }),
  );
  const kept = await Promise.all(many.map((sql) => value(sql`show work_mem`)));
  const words = await Promise.all(many.map((sql) => value(sql`select current_setting('my.word', true)`)));
  return {
    right: sum(right),
    kept: sum(kept.map((text, number) => text === `${1000 + number}kB`)),
    words: sum(words.map((text, number) => text === `word ${number}`)),
  };
}

async function itsPool() {
  const work = numbers.flatMap((number) =>
    Array.from({ length: ROUNDS }, async (_, n) => {
      const asked = pool`select ${n}::int * 1000 + ${number}::int`;
      return (await value(asked)) === n * 1000 + number;
    }),
  );
  return sum(await Promise.all(work));
}

const sleeps = () =>
  value(other`
    select count(*)::int as n from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'`);

async function cancel() {
  const sleep = one`select pg_sleep(60)`;
  const ended = state(sleep.execute());
  while ((await sleeps()) === 0);
  sleep.cancel();
  return { cancelled: await ended, after_cancel: await value(one`select 1`) };
}

async function copy() {
  await one`drop table if exists copied`;
  await one`create table copied (n int, word text)`;
  const rows = Array.from({ length: 10000 }, (_, n) => `${n}\tword ${n}\n`);
  await pipeline(Readable.from(rows), await one`copy copied from stdin`.writable());
  let size = 0;
  const count = new Writable({ write: (piece, _encoding, done) => ((size += piece.length), done()) });
  await pipeline(await one`copy (select * from copied order by n) to stdout`.readable(), count);
  return { copied: await value(one`select count(*)::int from copied`), copied_bytes: size };
}

async function stream() {
  let size = 0;
  const query = one`select repeat('x', 10240) as x from generate_series(1, 10240)`;
  await query.cursor(100, (rows) => rows.forEach((row) => (size += row.x.length)));
  return size;
}

async function recover() {
  const refused = [];
  await state(
    one.begin(async (sql) => {
      refused.push(await state(sql`select 1 / 0`));
      refused.push(await state(sql`select 1`));
      throw new Error("roll back");
    }),
  );
  return { refused, recovered: await value(one`select 7`) };
}

async function listen() {
  try {
    await one.unsafe("listen news");
    return [null, false];
  } catch (error) {
    return [error.code, `${error.message} ${error.hint}`.includes("direct host")];
  }
}

async function temporary() {
  const outside = await state(one`create temp table staying (n int)`);
  const inside = await one.begin(async (sql) => {
    await sql`create temp table passing (n int)`;
    await sql`insert into passing values (1), (2), (3)`;
    return value(sql`select count(*)::int from passing`);
  });
  return [outside, inside, await state(one`select * from passing`)];
}

async function lock() {
  const ofSession = await state(one`select pg_advisory_lock(1)`);
  const meanwhile = await one.begin(async (sql) => {
    await sql`select pg_advisory_xact_lock(1)`;
    return value(other`select pg_try_advisory_xact_lock(1)`);
  });
  return [ofSession, meanwhile, await value(other`select pg_try_advisory_xact_lock(1)`)];
}

const seen = {
  client: `postgres.js ${JSON.parse(readFileSync(`${modules}/postgres/package.json`)).version}`,
  is_bound: false,
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
await one.notify("news", "heard");
await Promise.all([one, other, pool, ...many].map((sql) => sql.end()));
console.log(JSON.stringify(seen));
