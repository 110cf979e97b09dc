// The published npm client, made from the arguments <node_modules> <base url> <key>, and what its users write around it.
// Every call of it that is made is noted.

import { createRequire } from "node:module";

const [modules, baseURL, apiKey] = process.argv.slice(2);
const { createApiClient } = createRequire(`${modules}/`)("@neondatabase/api-client");
const ENDED = new Set(["finished", "failed", "cancelled", "skipped"]);
const bare = createApiClient({ apiKey, baseURL });

export const called = new Set();
export const calls = Object.keys(bare).filter((name) => typeof bare[name] === "function");
export const client = new Proxy(bare, {
  get(target, name) {
    called.add(name);
    return target[name];
  },
});

export async function ended(projectId, operations) {
  const deadline = Date.now() + 60_000;
  const last = [];
  for (const { id } of operations) {
    let operation;
    do {
      if (Date.now() > deadline) throw new Error("the operations did not end");
      await new Promise((wake) => setTimeout(wake, 50));
      ({ operation } = (await client.getProjectOperation(projectId, id)).data);
    } while (!ENDED.has(operation.status));
    last.push(operation.status);
  }
  return last;
}

export async function failure(call) {
  try {
    await call();
  } catch (error) {
    return { status: error.response.status, ...error.response.data };
  }
  return null;
}
