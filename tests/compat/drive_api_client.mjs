// Drives a platform with the published npm client; prints what it saw as JSON.
// Usage: node drive_api_client.mjs <node_modules> <base url> <key>

import { client, ended, failure } from "./api_client.mjs";

async function everyPage() {
  const names = [];
  let cursor;
  do {
    const { projects, pagination } = (await client.listProjects({ limit: 2, search: "npm", cursor })).data;
    names.push(...projects.map((project) => project.name));
    cursor = pagination?.cursor;
  } while (cursor);
  return names;
}

const seen = {};
seen.auth = (await client.getAuthDetails()).data;
seen.me = (await client.getCurrentUserInfo()).data;
seen.organizations = (await client.getCurrentUserOrganizations()).data.organizations;
seen.regions = (await client.getActiveRegions()).data.regions;

const created = await client.createProject({ project: { name: "npm 1", branch: { database_name: "shop" } } });
seen.createdStatus = created.status;
seen.created = created.data;
const id = created.data.project.id;
seen.ended = await ended(id, created.data.operations);
seen.operations = (await client.listProjectOperations({ projectId: id, limit: 1 })).data;

const others = [];
for (const number of [2, 3]) {
  const { data } = await client.createProject({ project: { name: `npm ${number}` } });
  await ended(data.project.id, data.operations);
  others.push(data.project.id);
}
seen.names = await everyPage();
seen.shown = (await client.getProject(id)).data.project;
seen.updated = (await client.updateProject(id, { project: { name: "npm one" } })).data;
seen.uri = (
  await client.getConnectionUri({ projectId: id, database_name: "shop", role_name: "neondb_owner", pooled: true })
).data.uri;

seen.key = (await client.createApiKey({ key_name: "from npm" })).data;
seen.keys = (await client.listApiKeys()).data;
seen.revoked = (await client.revokeApiKey(seen.key.id)).data;

seen.deleted = (await client.deleteProject(id)).data.project;
seen.missing = await failure(() => client.getProject(id));
seen.recoverable = (await client.listProjects({ recoverable: true })).data.projects.map((project) => project.id);
seen.recovered = (await client.recoverProject(id)).data;
seen.refused = await failure(() => client.createProject({ project: { name: "" } }));
await ended(id, (await client.listProjectOperations({ projectId: id })).data.operations);
for (const each of [id, ...others]) await client.deleteProject(each);

console.log(JSON.stringify(seen));
