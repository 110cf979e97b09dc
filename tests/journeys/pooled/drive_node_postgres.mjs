// node-postgres at the pooled host. `NODE_MODULES URI ADDRESS`; prints one line of JSON.

import { LASTING, state } from "../clients/plain.mjs";
import { CLIENT, cancel, connect, copy, isBound } from "../clients/verbs_node_postgres.mjs";
import { makePool, recover, stream, value } from "../clients/verbs_node_postgres.mjs";
import { NUMBERS, crowd, itsPool, refusal } from "./crowd.mjs";

const one = await connect();
const other = await connect();
const many = await Promise.all(NUMBERS.map(connect));
const pool = makePool();

const numbered = (name, number, n) => ({ name, text: `select $1::int * 1000 + ${number}`, values: [n] });

// Each has another statement under the same name.
const ways = {
  set: (client, setting) => client.query(setting),
  ask: (client, number, n) => value(client, numbered("same", number, n)),
  memory: (client) => value(client, "show work_mem"),
  word: (client) => value(client, "select current_setting('my.word', true)"),
};

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
  client: CLIENT,
  is_bound: await isBound(),
  ...(await crowd(many, ways)),
  right_in_its_pool: await itsPool((number, n) => value(pool, numbered(`its ${number}`, number, n))),
  ...(await cancel(one, other)),
  ...(await copy(one, LASTING)),
  streamed: await stream(one),
  ...(await recover(one)),
  listened: await refusal(one.query("listen news")),
  temporary: await temporary(),
  locked: await lock(),
};
await one.query("notify news, 'heard'");
await Promise.all([one, other, pool, ...many].map((each) => each.end()));
console.log(JSON.stringify(seen));
