// What postgres.js does at either host.

import { require, versionOf, where } from "./given.mjs";
import { copyIn, sizeOf, state } from "./plain.mjs";

const postgres = require("postgres");

// With all its options, also those that it does not know and sends to the server as if they were settings.
const plain = new URL(where);

export const CLIENT = `postgres.js ${versionOf("postgres")}`;

export const makePool = (settings) => postgres(plain.href, settings);
export const connect = (settings) => makePool({ max: 1, ...settings });

export const value = async (query) => Object.values((await query)[0])[0];

const sleeps = (other) =>
  value(other`
    select count(*)::int from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'`);

export async function cancel(one, other) {
  const sleep = one`select pg_sleep(60)`;
  const ended = state(sleep.execute());
  while ((await sleeps(other)) === 0);
  sleep.cancel();
  return { cancelled: await ended, after_cancel: await value(one`select 1`) };
}

export async function copy(one, table) {
  for (const statement of table) await one.unsafe(statement);
  await copyIn(await one`copy copied from stdin`.writable());
  const size = await sizeOf(await one`copy (select * from copied order by n) to stdout`.readable());
  return { copied: await value(one`select count(*)::int from copied`), copied_bytes: size };
}

export async function stream(one) {
  let size = 0;
  const query = one`select repeat('x', 10240) as x from generate_series(1, 10240)`;
  await query.cursor(100, (rows) => rows.forEach((row) => (size += row.x.length)));
  return size;
}

export async function recover(one) {
  const refused = [];
  await state(
    one.begin(async (sql) => {
      refused.push(await state(sql`select 1 / 0`));
      refused.push(await state(sql`select 1`));
      throw new Error("roll back");
    }),
  );
  return { refused, recovered: await value(one`select 7`) };
}
