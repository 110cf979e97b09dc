// Reads the consumption history with the published npm clients; prints the results as JSON.
// The newest client has no method for the account any more, so that one is called with the version before it.
// Usage: node drive_consumption.mjs <node_modules> <base url> <key>

import { createRequire } from "node:module";
import { client, expectError, methods, waitForOperations } from "./api_client.mjs";

const [modules, baseURL, apiKey] = process.argv.slice(2);
const { createApiClient } = createRequire(`${modules}/`)("older-api-client");
const older = createApiClient({ apiKey, baseURL });

const created = (await client.createProject({ project: { name: "counted" } })).data;
await waitForOperations(created.project.id, created.operations);
const day = 24 * 3600 * 1000;
const midnight = Math.floor(Date.now() / day) * day;
const range = {
  from: new Date(midnight).toISOString(),
  to: new Date(midnight + day).toISOString(), // as the published dashboard does, to have today
  granularity: "daily",
};
const own = { ...range, org_id: created.project.org_id, project_ids: [created.project.id] };

async function readUntilCounted(read) {
  const deadline = Date.now() + 60_000;
  let data;
  do {
    if (Date.now() > deadline) throw new Error("nothing was counted");
    await new Promise((resolve) => setTimeout(resolve, 200));
    ({ data } = await read());
  } while (!data.projects[0]?.periods[0]?.consumption.some((bucket) => bucket.active_time_seconds));
  return data;
}

const results = { id: created.project.id, branch: created.branch.id };
results.projects = await readUntilCounted(() => client.getConsumptionHistoryPerProject(own));
results.account = (await older.getConsumptionHistoryPerAccount(range)).data;
const metrics = ["compute_unit_seconds", "root_branch_bytes_month"];
results.projectsV2 = (await client.getConsumptionHistoryPerProjectV2({ ...own, metrics })).data;
results.branchesV2 = (await client.getConsumptionHistoryPerBranchV2({ ...own, metrics })).data;
results.early = await expectError(() =>
  client.getConsumptionHistoryPerProject({ ...range, from: new Date(midnight - 90 * day).toISOString() }),
);
results.forgotten = methods.filter(
  (name) => /Consumption/.test(name) && !/Per(Project|ProjectV2|BranchV2)$/.test(name),
);
await client.deleteProject(created.project.id);
console.log(JSON.stringify(results));
