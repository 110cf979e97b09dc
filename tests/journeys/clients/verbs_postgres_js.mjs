// Actions of postgres.js at the direct and the pooled host.

import { getVersion, require, target } from "./given.mjs";
import { countBytes, getSqlstate, writeRows } from "./plain.mjs";

const postgres = require("postgres");

// With all options of the URI. postgres.js sends those that it does not know to the server as settings.
const url = new URL(target);

export const CLIENT = `postgres.js ${getVersion("postgres")}`;

export const makePool = (settings) => postgres(url.href, settings);
export const connect = (settings) => makePool({ max: 1, ...settings });

export const fetchValue = async (query) => Object.values((await query)[0])[0];

const countSleeping = (other) =>
  fetchValue(other`
    select count(*)::int from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'`);

export async function cancel(session, other) {
  const sleep = session`select pg_sleep(60)`;
  const result = getSqlstate(sleep.execute());
  while ((await countSleeping(other)) === 0);
  sleep.cancel();
  return { cancelled: await result, after_cancel: await fetchValue(session`select 1`) };
}

export async function copy(session, table) {
  for (const statement of table) await session.unsafe(statement);
  await writeRows(await session`copy copied from stdin`.writable());
  const size = await countBytes(await session`copy (select * from copied order by n) to stdout`.readable());
  return { copied: await fetchValue(session`select count(*)::int from copied`), copied_bytes: size };
}

export async function stream(session) {
  let size = 0;
  const query = session`select repeat('x', 10240) as x from generate_series(1, 10240)`;
  await query.cursor(100, (rows) => rows.forEach((row) => (size += row.x.length)));
  return size;
}

export async function recover(session) {
  const refused = [];
  await getSqlstate(
    session.begin(async (sql) => {
      refused.push(await getSqlstate(sql`select 1 / 0`));
      refused.push(await getSqlstate(sql`select 1`));
      throw new Error("roll back");
    }),
  );
  return { refused, recovered: await fetchValue(session`select 7`) };
}
