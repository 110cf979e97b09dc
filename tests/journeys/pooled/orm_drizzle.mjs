// Runs the ORM of Drizzle at the pooled host with default settings.
// Usage: `NODE_MODULES URI ADDRESS DRIVER`; prints a line of JSON. Workers transfer money between accounts with
// optimistic locking: a worker repeats its transaction when another worker has changed the same account.

import { extraArguments, getVersion, require } from "../clients/given.mjs";
import { range, sum } from "../clients/plain.mjs";
import * as nodePostgres from "../clients/verbs_node_postgres.mjs";
import * as postgresJs from "../clients/verbs_postgres_js.mjs";

const [driver] = extraArguments;
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

class Conflict extends Error {}
class Abort extends Error {}

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
  if (changed.length === 0) throw new Conflict();
  await tx.insert(entries).values({ accountId: account.id, amount, details: { with: account.name, amount } });
}

async function transfer(tx, number, done) {
  const payerId = (number + done) % ACCOUNTS;
  const payeeId = (payerId + 1 + ((number * 3 + done * 7) % (ACCOUNTS - 1))) % ACCOUNTS;
  const payer = await tx.query.accounts.findFirst({ where: eq(accounts.id, payerId) });
  const payee = await tx.query.accounts.findFirst({ where: eq(accounts.id, payeeId) });
  const amount = 1 + ((number * 7 + done * 13) % 49);
  // In the order of their ids, which prevents deadlocks.
  const changes = [
    [payer, -amount],
    [payee, amount],
  ].sort(([first], [second]) => first.id - second.id);
  for (const [account, by] of changes) await change(tx, account, by);
}

async function failInSavepoint(tx) {
  try {
    await tx.transaction((inner) => inner.insert(entries).values({ accountId: 1000, amount: 0, details: {} }));
    return 0;
  } catch (error) {
    return Number((error.cause ?? error).code === "23503");
  }
}

// Counts conflicts, aborted transactions and savepoints that were rolled back.
async function work(number) {
  const counts = { conflicts: 0, regretted: 0, caught: 0 };
  for (let done = 0; done < TRANSFERS; ) {
    let caught = 0;
    try {
      await db.transaction(async (tx) => {
        await transfer(tx, number, done);
        if (done === 3) caught = await failInSavepoint(tx);
        if (done % 5 === 4) throw new Abort();
      });
    } catch (error) {
      if (error instanceof Conflict) {
        counts.conflicts++;
        continue;
      }
      if (!(error instanceof Abort)) throw error;
      counts.regretted++;
    }
    counts.caught += caught;
    done++;
  }
  return counts;
}

async function readTotals() {
  const rows = await db.query.accounts.findMany({ with: { entries: true } });
  const [{ n }] = await db.select({ n: count() }).from(entries);
  return {
    accounts: rows.length,
    total: sum(rows.map((account) => account.balance)),
    balanced: rows.filter((account) => account.balance === 1000 + sum(account.entries.map((entry) => entry.amount)))
      .length,
    entries: n,
    versions: sum(rows.map((account) => account.version)),
  };
}

await makeTables();
const counts = await Promise.all(range(WORKERS).map(work));
const conflicts = sum(counts.map((each) => each.conflicts));
const results = {
  client: `drizzle-orm ${getVersion("drizzle-orm")} with ${driver}, ${conflicts} conflicts`,
  regretted: sum(counts.map((each) => each.regretted)),
  caught: sum(counts.map((each) => each.caught)),
  ...(await readTotals()),
};
await pool.end();
console.log(JSON.stringify(results));
