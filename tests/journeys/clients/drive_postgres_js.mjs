// postgres.js does what programs do with a database. `NODE_MODULES URI [ADDRESS]`; prints one line of JSON.

import dns from "node:dns";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pipeline } from "node:stream/promises";
import { Readable, Writable } from "node:stream";

const [modules, uri, address] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const postgres = require("postgres");

const where = new URL(uri);
where.searchParams.delete("channel_binding"); // it cannot, and takes the word for a setting of the server

if (address) {
  const asked = dns.lookup;
  dns.lookup = (name, ...more) => asked(name === where.hostname ? address : name, ...more);
}

// One connection each: `one` is the session that the rest is about.
const one = postgres(where.href, { max: 1, fetch_types: false });
const other = postgres(where.href, { max: 1, fetch_types: false });

async function state(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code;
  }
}

async function prepared() {
  const squares = [];
  for (let n = 1; n <= 10; n++) squares.push((await one`select ${n}::int * ${n}::int as square`)[0].square);
  return squares;
}

async function sleeps() {
  const rows = await other`
    select count(*)::int as n from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'`;
  return rows[0].n;
}

async function cancel() {
  const sleep = one`select pg_sleep(60)`;
  const ended = state(sleep.execute());
  while ((await sleeps()) === 0);
  sleep.cancel();
  return { cancelled: await ended, after_cancel: (await one`select 1 as n`)[0].n };
}

async function copy() {
  await one`create temp table copied (n int, word text)`;
  const rows = Array.from({ length: 10000 }, (_, n) => `${n}\tword ${n}\n`);
  await pipeline(Readable.from(rows), await one`copy copied from stdin`.writable());
  let size = 0;
  const count = new Writable({ write: (piece, _encoding, done) => ((size += piece.length), done()) });
  await pipeline(await one`copy (select * from copied order by n) to stdout`.readable(), count);
  return { copied: (await one`select count(*)::int as n from copied`)[0].n, copied_bytes: size };
}

async function stream() {
  let size = 0;
  const query = one`select repeat('x', 10240) as x from generate_series(1, 10240)`;
  await query.cursor(100, (rows) => rows.forEach((row) => (size += row.x.length)));
  return size;
}

async function notify() {
  const words = [];
  let told;
  const heard = new Promise((resolve) => (told = resolve));
  await one.listen("news", (word) => words.push(word) === 2 && told(words));
  await other`select pg_notify('news', word) from unnest(array['one', 'two']) word`;
  return heard;
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
  return { refused, recovered: (await one`select 7 as n`)[0].n };
}

const seen = {
  client: `postgres.js ${JSON.parse(readFileSync(`${modules}/postgres/package.json`)).version}`,
  is_bound: false,
  prepared: await prepared(),
  statements: (await one`select count(*)::int as n from pg_prepared_statements where statement like '%::int as square'`)[0].n,
  ...(await cancel()),
  ...(await copy()),
  streamed: await stream(),
  notified: await notify(),
  ...(await recover()),
};
await one.end();
await other.end();
console.log(JSON.stringify(seen));
