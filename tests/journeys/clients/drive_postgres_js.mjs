// Runs typical actions with postgres.js. Usage: `NODE_MODULES URI ADDRESS`; prints a line of JSON.

import { TEMPORARY_TABLE } from "./plain.mjs";
import { CLIENT, cancel, connect, copy, fetchValue, recover, stream } from "./verbs_postgres_js.mjs";

// Each has a pool with a single connection.
const session = connect({ fetch_types: false });
const other = connect({ fetch_types: false });

async function prepare() {
  const squares = [];
  for (let n = 1; n <= 10; n++) squares.push(await fetchValue(session`select ${n}::int * ${n}::int as square`));
  return squares;
}

async function notify() {
  const words = [];
  let resolveWords;
  const received = new Promise((resolve) => (resolveWords = resolve));
  await session.listen("news", (word) => words.push(word) === 2 && resolveWords(words));
  await other`select pg_notify('news', word) from unnest(array['one', 'two']) word`;
  return received;
}

const results = {
  client: CLIENT,
  is_bound: false,
  prepared: await prepare(),
  statements: await fetchValue(
    session`select count(*)::int from pg_prepared_statements where statement like '%::int as square'`,
  ),
  ...(await cancel(session, other)),
  ...(await copy(session, TEMPORARY_TABLE)),
  streamed: await stream(session),
  notified: await notify(),
  ...(await recover(session)),
};
await session.end();
await other.end();
console.log(JSON.stringify(results));
