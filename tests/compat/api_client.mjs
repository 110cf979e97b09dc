// The published npm client, created from the arguments <node_modules> <base url> <key>, and helpers around it.
// `called` records the methods that were called.

import { createRequire } from "node:module";

const [modules, baseURL, apiKey] = process.argv.slice(2);
const { createApiClient } = createRequire(`${modules}/`)("@neondatabase/api-client");
const ENDED = new Set(["finished", "failed", "cancelled", "skipped"]);
const plainClient = createApiClient({ apiKey, baseURL });

export const called = new Set();
export const methods = Object.keys(plainClient).filter((name) => typeof plainClient[name] === "function");
export const client = new Proxy(plainClient, {
  get(target, name) {
    called.add(name);
    return target[name];
  },
});

export async function waitForOperations(projectId, operations) {
  const deadline = Date.now() + 60_000;
  const statuses = [];
  for (const { id } of operations) {
    let operation;
    do {
      if (Date.now() > deadline) throw new Error("the operations did not end");
      await new Promise((resolve) => setTimeout(resolve, 50));
      ({ operation } = (await client.getProjectOperation(projectId, id)).data);
    } while (!ENDED.has(operation.status));
    statuses.push(operation.status);
  }
  return statuses;
}

export async function expectError(call) {
  try {
    await call();
  } catch (error) {
    return { status: error.response.status, ...error.response.data };
  }
  return null;
}
