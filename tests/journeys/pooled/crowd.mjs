// Runs statements and settings on many pooled connections, and counts the correct results.

import { range, sum } from "../clients/plain.mjs";

const ROUNDS = 25;

export const NUMBERS = range(8);

// Each client sets its own values of a Postgres setting and of a custom setting. The functions are those of a library.
export async function useAll(clients, { set, select, showWorkMem, showCustomSetting }) {
  const correct = clients.map(async (client, number) => {
    await set(client, `set work_mem = '${1000 + number}kB'`);
    await set(client, `set my.word = 'word ${number}'`);
    let count = 0;
    for (const n of range(ROUNDS)) count += (await select(client, number, n)) === n * 1000 + number;
    return count;
  });
  return {
    right: sum(await Promise.all(correct)),
    kept: sum((await Promise.all(clients.map(showWorkMem))).map((text, number) => text === `${1000 + number}kB`)),
    words: sum((await Promise.all(clients.map(showCustomSetting))).map((text, number) => text === `word ${number}`)),
  };
}

// Uses the pool of the client library, with a connection for each statement.
export async function useClientPool(select) {
  const correct = NUMBERS.flatMap((number) =>
    range(ROUNDS).map(async (n) => (await select(number, n)) === n * 1000 + number),
  );
  return sum(await Promise.all(correct));
}

// Returns the SQLSTATE of an error, and whether its message or hint names the direct host.
export async function getRefusal(promise) {
  try {
    await promise;
    return [null, false];
  } catch (error) {
    return [error.code, `${error.message} ${error.hint}`.includes("direct host")];
  }
}
