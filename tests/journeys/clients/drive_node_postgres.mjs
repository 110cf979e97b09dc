// node-postgres does what programs do with a database. `NODE_MODULES URI ADDRESS`; prints one line of JSON.

import { TEMPORARY } from "./plain.mjs";
import { CLIENT, cancel, connect, copy, isBound, recover, stream, value } from "./verbs_node_postgres.mjs";

const one = await connect();
const other = await connect();

async function prepare() {
  const squares = [];
  for (let n = 1; n <= 10; n++) {
    squares.push(await value(one, { name: "square", text: "select $1::int * $1::int", values: [n] }));
  }
  return squares;
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

const seen = {
  client: CLIENT,
  is_bound: await isBound(),
  prepared: await prepare(),
  statements: await value(one, "select count(*)::int from pg_prepared_statements"),
  ...(await cancel(one, other)),
  ...(await copy(one, TEMPORARY)),
  streamed: await stream(one),
  notified: await notify(),
  ...(await recover(one)),
};
await one.end();
await other.end();
console.log(JSON.stringify(seen));
