// Runs node-postgres at the pooled host. Usage: `NODE_MODULES URI ADDRESS`; prints a line of JSON.

import { PERMANENT_TABLE, getSqlstate } from "../clients/plain.mjs";
import { CLIENT, cancel, connect, copy, isBound } from "../clients/verbs_node_postgres.mjs";
import { fetchValue, makePool, recover, stream } from "../clients/verbs_node_postgres.mjs";
import { NUMBERS, getRefusal, useAll, useClientPool } from "./crowd.mjs";

const session = await connect();
const other = await connect();
const clients = await Promise.all(NUMBERS.map(connect));
const pool = makePool();

const makeQuery = (name, number, n) => ({ name, text: `select $1::int * 1000 + ${number}`, values: [n] });

// Each client has its own statement under the same name.
const functions = {
  set: (client, setting) => client.query(setting),
  select: (client, number, n) => fetchValue(client, makeQuery("same", number, n)),
  showWorkMem: (client) => fetchValue(client, "show work_mem"),
  showCustomSetting: (client) => fetchValue(client, "select current_setting('my.word', true)"),
};

async function temporary() {
  const outside = await getSqlstate(session.query("create temp table staying (n int)"));
  await session.query("begin");
  await session.query("create temp table passing (n int)");
  await session.query("insert into passing values (1), (2), (3)");
  const inside = await fetchValue(session, "select count(*)::int from passing");
  await session.query("commit");
  return [outside, inside, await getSqlstate(session.query("select * from passing"))];
}

async function lock() {
  const sessionLock = await getSqlstate(session.query("select pg_advisory_lock(1)"));
  await session.query("begin");
  await session.query("select pg_advisory_xact_lock(1)");
  const during = await fetchValue(other, "select pg_try_advisory_xact_lock(1)");
  await session.query("commit");
  return [sessionLock, during, await fetchValue(other, "select pg_try_advisory_xact_lock(1)")];
}

const results = {
  client: CLIENT,
  is_bound: await isBound(),
  ...(await useAll(clients, functions)),
  right_in_its_pool: await useClientPool((number, n) => fetchValue(pool, makeQuery(`its ${number}`, number, n))),
  ...(await cancel(session, other)),
  ...(await copy(session, PERMANENT_TABLE)),
  streamed: await stream(session),
  ...(await recover(session)),
  listened: await getRefusal(session.query("listen news")),
  temporary: await temporary(),
  locked: await lock(),
};
await session.query("notify news, 'heard'");
await Promise.all([session, other, pool, ...clients].map((each) => each.end()));
console.log(JSON.stringify(results));
