// A crowd at the pooled host: what each asks and sets, and how many were answered and found it so.

import { range, sum } from "../clients/plain.mjs";

const ROUNDS = 25;

export const NUMBERS = range(8);

// How a client does each is given; it has settings of its own, one that Postgres knows and one that it does not.
export async function crowd(many, { set, ask, memory, word }) {
  const right = many.map(async (client, number) => {
    await set(client, `set work_mem = '${1000 + number}kB'`);
    await set(client, `set my.word = 'word ${number}'`);
    let count = 0;
    for (const n of range(ROUNDS)) count += (await ask(client, number, n)) === n * 1000 + number;
    return count;
  });
  return {
    right: sum(await Promise.all(right)),
    kept: sum((await Promise.all(many.map(memory))).map((text, number) => text === `${1000 + number}kB`)),
    words: sum((await Promise.all(many.map(word))).map((text, number) => text === `word ${number}`)),
  };
}

// As most programs use a client: a pool of its own, a connection for each statement.
export async function itsPool(ask) {
  const right = NUMBERS.flatMap((number) =>
    range(ROUNDS).map(async (n) => (await ask(number, n)) === n * 1000 + number),
  );
  return sum(await Promise.all(right));
}

// The state of an error, and whether it tells of the direct host.
export async function refusal(promise) {
  try {
    await promise;
    return [null, false];
  } catch (error) {
    return [error.code, `${error.message} ${error.hint}`.includes("direct host")];
  }
}
