// postgres.js at the pooled host, with its defaults. `NODE_MODULES URI ADDRESS`; prints one line of JSON.

import { LASTING, state } from "../clients/plain.mjs";
import { CLIENT, cancel, connect, copy, makePool, recover, stream, value } from "../clients/verbs_postgres_js.mjs";
import { NUMBERS, crowd, itsPool, refusal } from "./crowd.mjs";

// Most of this is about sessions: one connection each. `pool` is how programs use it, with all its defaults.
const [one, other] = [connect(), connect()];
const many = NUMBERS.map(() => connect());
const pool = makePool();

const ask = (sql, number, n) => value(sql`select ${n}::int * 1000 + ${number}::int`);

// Everything but the settings is prepared, each under a name that comes with the text.
const ways = {
  set: (sql, setting) => sql.unsafe(setting),
  ask,
  memory: (sql) => value(sql`show work_mem`),
  word: (sql) => value(sql`select current_setting('my.word', true)`),
};

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
  client: CLIENT,
  is_bound: false,
  ...(await crowd(many, ways)),
  right_in_its_pool: await itsPool((number, n) => ask(pool, number, n)),
  ...(await cancel(one, other)),
  ...(await copy(one, LASTING)),
  streamed: await stream(one),
  ...(await recover(one)),
  listened: await refusal(one.unsafe("listen news")),
  temporary: await temporary(),
  locked: await lock(),
};
await one.notify("news", "heard");
await Promise.all([one, other, pool, ...many].map((sql) => sql.end()));
console.log(JSON.stringify(seen));
