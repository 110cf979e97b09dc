// postgres.js does what programs do with a database. `NODE_MODULES URI ADDRESS`; prints one line of JSON.

import { TEMPORARY } from "./plain.mjs";
import { CLIENT, cancel, connect, copy, recover, stream, value } from "./verbs_postgres_js.mjs";

// One connection each: `one` is the session that the rest is about.
const one = connect({ fetch_types: false });
const other = connect({ fetch_types: false });

async function prepare() {
  const squares = [];
  for (let n = 1; n <= 10; n++) squares.push(await value(one`select ${n}::int * ${n}::int as square`));
  return squares;
}

async function notify() {
  const words = [];
  let told;
  const heard = new Promise((resolve) => (told = resolve));
  await one.listen("news", (word) => words.push(word) === 2 && told(words));
  await other`select pg_notify('news', word) from unnest(array['one', 'two']) word`;
  return heard;
}

const seen = {
  client: CLIENT,
  is_bound: false,
  prepared: await prepare(),
  statements: await value(
    one`select count(*)::int from pg_prepared_statements where statement like '%::int as square'`,
  ),
  ...(await cancel(one, other)),
  ...(await copy(one, TEMPORARY)),
  streamed: await stream(one),
  notified: await notify(),
  ...(await recover(one)),
};
await one.end();
await other.end();
console.log(JSON.stringify(seen));
