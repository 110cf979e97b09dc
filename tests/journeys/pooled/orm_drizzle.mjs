// Drizzle's ORM at the pooled host, with its defaults. `NODE_MODULES URI ADDRESS DRIVER`; prints one line of JSON.
// Workers move money between accounts, each reads what it changes and begins anew when another was faster.

import { more, require, versionOf } from "../clients/given.mjs";
import { range, sum } from "../clients/plain.mjs";
import * as nodePostgres from "../clients/verbs_node_postgres.mjs";
import * as postgresJs from "../clients/verbs_postgres_js.mjs";

const [driver] = more;
const { and, count, eq, relations, sql } = require("drizzle-orm");
const { integer, jsonb, pgTable, serial, text } = require("drizzle-orm/pg-core");

const [ACCOUNTS, WORKERS, TRANSFERS] = [10, 20, 10];

const accounts = pgTable("accounts", {
  id: integer("id").primaryKey(),
  name: text("name").notNull().unique(),
  balance: integer("balance").notNull(),
  version: integer("version").notNull().default(1),
});
const entries = pgTable("entries", {
  id: serial("id").primaryKey(),
  accountId: integer("account_id")
    .notNull()
    .references(() => accounts.id),
  amount: integer("amount").notNull(),
  details: jsonb("details").notNull(),
});
const schema = {
  accounts,
  entries,
  ofAccount: relations(accounts, ({ many }) => ({ entries: many(entries) })),
  ofEntry: relations(entries, ({ one }) => ({
    account: one(accounts, { fields: [entries.accountId], references: [accounts.id] }),
  })),
};

class Stale extends Error {}
class Regret extends Error {}

const drivers = {
  "postgres.js": [postgresJs.makePool, "drizzle-orm/postgres-js"],
  "node-postgres": [nodePostgres.makePool, "drizzle-orm/node-postgres"],
};
const [makePool, adapter] = drivers[driver];
const pool = makePool();
const db = require(adapter).drizzle(pool, { schema });

async function makeTables() {
  await db.execute(sql`drop table if exists entries, accounts`);
  await db.execute(sql`create table accounts (
    id int primary key, name text not null unique, balance int not null, version int not null default 1)`);
  await db.execute(sql`create table entries (
    id serial primary key, account_id int not null references accounts, amount int not null, details jsonb not null)`);
  await db.insert(accounts).values(range(ACCOUNTS).map((id) => ({ id, name: `account ${id}`, balance: 1000 })));
}

async function change(tx, account, amount) {
  const changed = await tx
    .update(accounts)
    .set({ balance: account.balance + amount, version: account.version + 1 })
    .where(and(eq(accounts.id, account.id), eq(accounts.version, account.version)))
    .returning({ id: accounts.id });
  if (changed.length === 0) throw new Stale();
  await tx.insert(entries).values({ accountId: account.id, amount, details: { with: account.name, amount } });
}

async function transfer(tx, number, done) {
  const payerId = (number + done) % ACCOUNTS;
  const payeeId = (payerId + 1 + ((number * 3 + done * 7) % (ACCOUNTS - 1))) % ACCOUNTS;
  const payer = await tx.query.accounts.findFirst({ where: eq(accounts.id, payerId) });
  const payee = await tx.query.accounts.findFirst({ where: eq(accounts.id, payeeId) });
  const amount = 1 + ((number * 7 + done * 13) % 49);
  // In the order of their ids, so that two never wait for one another.
  const changes = [
    [payer, -amount],
    [payee, amount],
  ].sort(([one], [other]) => one.id - other.id);
  for (const [account, by] of changes) await change(tx, account, by);
}

async function refusedInASavepoint(tx) {
  try {
    await tx.transaction((inner) => inner.insert(entries).values({ accountId: 1000, amount: 0, details: {} }));
    return 0;
  } catch (error) {
    return Number((error.cause ?? error).code === "23503");
  }
}

// How often somebody was faster, how often it was regretted, how often a savepoint was rolled back.
async function work(number) {
  const told = { conflicts: 0, regretted: 0, caught: 0 };
  for (let done = 0; done < TRANSFERS; ) {
    let caught = 0;
    try {
      await db.transaction(async (tx) => {
        await transfer(tx, number, done);
        if (done === 3) caught = await refusedInASavepoint(tx);
        if (done % 5 === 4) throw new Regret();
      });
    } catch (error) {
      if (error instanceof Stale) {
        told.conflicts++;
        continue;
      }
      if (!(error instanceof Regret)) throw error;
      told.regretted++;
    }
    told.caught += caught;
    done++;
  }
  return told;
}

async function looked() {
  const found = await db.query.accounts.findMany({ with: { entries: true } });
  const [{ n }] = await db.select({ n: count() }).from(entries);
  return {
    accounts: found.length,
    total: sum(found.map((account) => account.balance)),
    balanced: found.filter((account) => account.balance === 1000 + sum(account.entries.map((entry) => entry.amount)))
      .length,
    entries: n,
    versions: sum(found.map((account) => account.version)),
  };
}

await makeTables();
const told = await Promise.all(range(WORKERS).map(work));
const conflicts = sum(told.map((each) => each.conflicts));
const seen = {
  client: `drizzle-orm ${versionOf("drizzle-orm")} with ${driver}, ${conflicts} conflicts`,
  regretted: sum(told.map((each) => each.regretted)),
  caught: sum(told.map((each) => each.caught)),
  ...(await looked()),
};
await pool.end();
console.log(JSON.stringify(seen));
