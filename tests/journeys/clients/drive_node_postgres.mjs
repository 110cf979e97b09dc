// Runs typical actions with node-postgres. Usage: `NODE_MODULES URI ADDRESS`; prints a line of JSON.

import { TEMPORARY_TABLE } from "./plain.mjs";
import { CLIENT, cancel, connect, copy, fetchValue, isBound, recover, stream } from "./verbs_node_postgres.mjs";

const session = await connect();
const other = await connect();

async function prepare() {
  const squares = [];
  for (let n = 1; n <= 10; n++) {
    squares.push(await fetchValue(session, { name: "square", text: "select $1::int * $1::int", values: [n] }));
  }
  return squares;
}

async function notify() {
  const words = [];
  const received = new Promise((resolve) =>
    session.on("notification", (notification) => words.push(notification.payload) === 2 && resolve(words)),
  );
  await session.query("listen news");
  await other.query("select pg_notify('news', word) from unnest(array['one', 'two']) word");
  return received;
}

const results = {
  client: CLIENT,
  is_bound: await isBound(),
  prepared: await prepare(),
  statements: await fetchValue(session, "select count(*)::int from pg_prepared_statements"),
  ...(await cancel(session, other)),
  ...(await copy(session, TEMPORARY_TABLE)),
  streamed: await stream(session),
  notified: await notify(),
  ...(await recover(session)),
};
await session.end();
await other.end();
console.log(JSON.stringify(results));
