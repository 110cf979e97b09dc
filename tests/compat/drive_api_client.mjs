// Drives a platform with the published npm client; prints the results as JSON.
// Usage: node drive_api_client.mjs <node_modules> <base url> <key>

import { client, expectError, waitForOperations } from "./api_client.mjs";

async function listAllPages() {
  const names = [];
  let cursor;
  do {
    const { projects, pagination } = (await client.listProjects({ limit: 2, search: "npm", cursor })).data;
    names.push(...projects.map((project) => project.name));
    cursor = pagination?.cursor;
  } while (cursor);
  return names;
}

const results = {};
results.auth = (await client.getAuthDetails()).data;
results.me = (await client.getCurrentUserInfo()).data;
results.organizations = (await client.getCurrentUserOrganizations()).data.organizations;
results.regions = (await client.getActiveRegions()).data.regions;

const created = await client.createProject({ project: { name: "npm 1", branch: { database_name: "shop" } } });
results.createdStatus = created.status;
results.created = created.data;
const id = created.data.project.id;
results.ended = await waitForOperations(id, created.data.operations);
results.operations = (await client.listProjectOperations({ projectId: id, limit: 1 })).data;

const others = [];
for (const number of [2, 3]) {
  const { data } = await client.createProject({ project: { name: `npm ${number}` } });
  await waitForOperations(data.project.id, data.operations);
  others.push(data.project.id);
}
results.names = await listAllPages();
results.shown = (await client.getProject(id)).data.project;
results.libraries = (await client.getAvailablePreloadLibraries(id)).data.libraries;
const settings = { preload_libraries: { use_defaults: true, enabled_libraries: ["neon", "auto_explain,pg_prewarm"] } };
results.preloading = (await client.updateProject(id, { project: { settings } })).data.project.settings;
results.unknownLibrary = await expectError(() =>
  client.updateProject(id, { project: { settings: { preload_libraries: { enabled_libraries: ["pg_stat"] } } } }),
);
results.updated = (await client.updateProject(id, { project: { name: "npm one" } })).data;
results.uri = (
  await client.getConnectionUri({ projectId: id, database_name: "shop", role_name: "neondb_owner", pooled: true })
).data.uri;

results.key = (await client.createApiKey({ key_name: "from npm" })).data;
results.keys = (await client.listApiKeys()).data;
results.revoked = (await client.revokeApiKey(results.key.id)).data;

results.deleted = (await client.deleteProject(id)).data.project;
results.missing = await expectError(() => client.getProject(id));
results.recoverable = (await client.listProjects({ recoverable: true })).data.projects.map((project) => project.id);
results.recovered = (await client.recoverProject(id)).data;
results.refused = await expectError(() => client.createProject({ project: { name: "" } }));
await waitForOperations(id, (await client.listProjectOperations({ projectId: id })).data.operations);
for (const each of [id, ...others]) await client.deleteProject(each);

console.log(JSON.stringify(results));
