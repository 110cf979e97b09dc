// Drives branches, endpoints, roles and databases with the published npm client; prints what it saw as JSON.
// Usage: node drive_branches.mjs <node_modules> <base url> <key>

import { called, calls, client, ended, failure } from "./api_client.mjs";

const seen = {};

// The answer to a change, once its work is done.
async function done(answer) {
  const { data, status } = await answer;
  const [first] = data.operations;
  const statuses = first ? await ended(first.project_id, data.operations) : [];
  return { ...data, status, actions: data.operations.map((each) => each.action), statuses };
}

async function everyBranch(query) {
  const names = [];
  let cursor;
  do {
    const { branches, pagination } = (await client.listProjectBranches({ ...query, limit: 1, cursor })).data;
    names.push(...branches.map((branch) => branch.name));
    cursor = pagination?.next;
  } while (cursor);
  return names;
}

// Nobody waits and nobody retries: a project, a branch in it, and at once all that one wants of the branch.
const hasty = (await client.createProject({ project: { name: "npm hasty" } })).data;
const projectId = hasty.project.id;
const main = hasty.branch.id;
const first = client.createProjectBranch(projectId, {
  branch: { name: "dev" },
  endpoints: [{ type: "read_write" }],
  annotation_value: { ticket: "42" },
});
const dev = (await first).data.branch.id;
const together = [client.createProjectBranch(projectId), client.createProjectBranch(projectId)];
const [, nameless] = await Promise.all(together);
const child = (await client.createProjectBranch(projectId, { branch: { name: "child", parent_id: dev } })).data.branch.id;
await client.createProjectBranchRole(projectId, child, { role: { name: "app" } });
seen.created = await done(first);
const all = (await client.listProjectOperations({ projectId, limit: 100 })).data.operations;
seen.hasty = await ended(projectId, all);

// Branches.
seen.states = (await client.listProjectBranches({ projectId })).data.branches.map((each) => each.current_state);
seen.names = await everyBranch({ projectId, sort_by: "created_at", sort_order: "asc" });
seen.found = await everyBranch({ projectId, search: "DEV" });
seen.count = (await client.countProjectBranches({ projectId })).data.count;
seen.shown = (await client.getProjectBranch(projectId, dev)).data;
seen.annotations = (await client.listProjectBranches({ projectId })).data.annotations;
const soon = new Date(Date.now() + 86_400_000).toISOString();
const orphan = nameless.data.branch.id;
seen.expiring = (await client.updateProjectBranch(projectId, orphan, { branch: { expires_at: soon } })).data.branch;
seen.kept = (await client.updateProjectBranch(projectId, orphan, { branch: { expires_at: null } })).data.branch;
seen.soon = soon;
seen.default = (await client.setDefaultProjectBranch(projectId, dev)).data.branch;
seen.stays = await failure(() => client.deleteProjectBranch({ projectId, branchId: dev }));
await client.setDefaultProjectBranch(projectId, main);
seen.parent = await failure(() => client.deleteProjectBranch({ projectId, branchId: dev }));
seen.resetBranch = await done(client.restoreProjectBranch(projectId, orphan, { source_branch_id: main }));
seen.restored = (await client.getProjectBranch(projectId, orphan)).data.branch;
seen.itself = await failure(() => client.restoreProjectBranch(projectId, orphan, { source_branch_id: orphan }));
seen.deleted = await done(client.deleteProjectBranch({ projectId, branchId: orphan }));
seen.again = (await client.deleteProjectBranch({ projectId, branchId: orphan })).status;
seen.missing = await failure(() => client.getProjectBranch(projectId, orphan));
seen.recovered = (await client.recoverProjectBranch(projectId, orphan)).data;
await done(client.deleteProjectBranch({ projectId, branchId: orphan }));
seen.deletedToo = (await client.listProjectBranches({ projectId, include_deleted: true })).data.branches.length;

// Endpoints.
const asked = { branch_id: child, type: "read_write", suspend_timeout_seconds: 120 };
seen.endpoint = await done(client.createProjectEndpoint(projectId, { endpoint: asked }));
const endpoint = seen.endpoint.endpoint.id;
seen.second = await failure(() => client.createProjectEndpoint(projectId, { endpoint: asked }));
seen.active = (await client.getProjectEndpoint(projectId, endpoint)).data.endpoint.current_state;
seen.ofBranch = (await client.listProjectBranchEndpoints(projectId, child)).data.endpoints.map((each) => each.id);
seen.ofProject = (await client.listProjectEndpoints(projectId)).data.endpoints.length;
seen.updated = await done(client.updateProjectEndpoint(projectId, endpoint, { endpoint: { name: "mine" } }));
seen.verbs = [];
for (const verb of ["suspendProjectEndpoint", "startProjectEndpoint", "restartProjectEndpoint"]) {
  seen.verbs.push((await done(client[verb](projectId, endpoint))).actions);
}

// Roles and databases, under a name that has to be quoted everywhere.
const name = 'It\'s "grün"/100% & more';
seen.role = await done(client.createProjectBranchRole(projectId, child, { role: { name } }));
seen.roles = (await client.listProjectBranchRoles(projectId, child)).data.roles.map((each) => each.name);
seen.oneRole = (await client.getProjectBranchRole(projectId, child, name)).data.role;
seen.reset = await done(client.resetProjectBranchRolePassword(projectId, child, name));
seen.password = (await client.getProjectBranchRolePassword(projectId, child, name)).data.password;
const database = { name, owner_name: name };
seen.database = await done(client.createProjectBranchDatabase(projectId, child, { database }));
seen.databases = (await client.listProjectBranchDatabases(projectId, child)).data.databases.map((each) => each.name);
seen.oneDatabase = (await client.getProjectBranchDatabase(projectId, child, name)).data.database;
seen.owner = await failure(() => client.deleteProjectBranchRole(projectId, child, name));
const given = { database: { owner_name: "app" } };
seen.given = await done(client.updateProjectBranchDatabase(projectId, child, name, given));
seen.dropped = await done(client.deleteProjectBranchDatabase(projectId, child, name));
seen.left = await done(client.deleteProjectBranchRole(projectId, child, name));
seen.nothing = (await client.deleteProjectBranchRole(projectId, child, name)).status;

seen.noEndpoint = await done(client.deleteProjectEndpoint(projectId, endpoint));
await client.deleteProject(projectId);

const OURS = /Project(Branch(es)?|Endpoints?|Operations?)$|ProjectBranch(Endpoints|Roles?|RolePassword|Databases?)$/;
seen.forgotten = calls.filter((call) => OURS.test(call) && !called.has(call));
console.log(JSON.stringify(seen));
