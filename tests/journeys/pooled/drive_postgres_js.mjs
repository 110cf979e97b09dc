// Runs postgres.js at the pooled host with default settings. Usage: `NODE_MODULES URI ADDRESS`; prints a line of JSON.

import { PERMANENT_TABLE, getSqlstate } from "../clients/plain.mjs";
import { CLIENT, cancel, connect, copy, fetchValue, makePool, recover, stream } from "../clients/verbs_postgres_js.mjs";
import { NUMBERS, getRefusal, useAll, useClientPool } from "./crowd.mjs";

// Pools with a single connection for actions that need a session. `pool` has the default settings, as in most programs.
const [session, other] = [connect(), connect()];
const clients = NUMBERS.map(() => connect());
const pool = makePool();

const select = (sql, number, n) => fetchValue(sql`select ${n}::int * 1000 + ${number}::int`);

// postgres.js prepares all statements except the settings, under names that depend on their text.
const functions = {
  set: (sql, setting) => sql.unsafe(setting),
  select,
  showWorkMem: (sql) => fetchValue(sql`show work_mem`),
  showCustomSetting: (sql) => fetchValue(sql`select current_setting('my.word', true)`),
};

async function temporary() {
  const outside = await getSqlstate(session`create temp table staying (n int)`);
  const inside = await session.begin(async (sql) => {
    await sql`create temp table passing (n int)`;
    await sql`insert into passing values (1), (2), (3)`;
    return fetchValue(sql`select count(*)::int from passing`);
  });
  return [outside, inside, await getSqlstate(session`select * from passing`)];
}

async function lock() {
  const sessionLock = await getSqlstate(session`select pg_advisory_lock(1)`);
  const during = await session.begin(async (sql) => {
    await sql`select pg_advisory_xact_lock(1)`;
    return fetchValue(other`select pg_try_advisory_xact_lock(1)`);
  });
  return [sessionLock, during, await fetchValue(other`select pg_try_advisory_xact_lock(1)`)];
}

const results = {
  client: CLIENT,
  is_bound: false,
  ...(await useAll(clients, functions)),
  right_in_its_pool: await useClientPool((number, n) => select(pool, number, n)),
  ...(await cancel(session, other)),
  ...(await copy(session, PERMANENT_TABLE)),
  streamed: await stream(session),
  ...(await recover(session)),
  listened: await getRefusal(session.unsafe("listen news")),
  temporary: await temporary(),
  locked: await lock(),
};
await session.notify("news", "heard");
await Promise.all([session, other, pool, ...clients].map((sql) => sql.end()));
console.log(JSON.stringify(results));
