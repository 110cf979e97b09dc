// Drives branches, endpoints, roles and databases with the published npm client; prints the results as JSON.
// Usage: node drive_branches.mjs <node_modules> <base url> <key>

import { called, client, expectError, methods, waitForOperations } from "./api_client.mjs";

const results = {};

// Returns the response to a change after its operations have ended.
async function finish(response) {
  const { data, status } = await response;
  const [first] = data.operations;
  const statuses = first ? await waitForOperations(first.project_id, data.operations) : [];
  return { ...data, status, actions: data.operations.map((each) => each.action), statuses };
}

async function listAllBranches(query) {
  const names = [];
  let cursor;
  do {
    const { branches, pagination } = (await client.listProjectBranches({ ...query, limit: 1, cursor })).data;
    names.push(...branches.map((branch) => branch.name));
    cursor = pagination?.next;
  } while (cursor);
  return names;
}

// Creates a project, branches and a role without waiting and without retries.
const hasty = (await client.createProject({ project: { name: "npm hasty" } })).data;
const projectId = hasty.project.id;
const main = hasty.branch.id;
const first = client.createProjectBranch(projectId, {
  branch: { name: "dev" },
  endpoints: [{ type: "read_write" }],
  annotation_value: { ticket: "42" },
});
const dev = (await first).data.branch.id;
const concurrent = [client.createProjectBranch(projectId), client.createProjectBranch(projectId)];
const [, nameless] = await Promise.all(concurrent);
const child = (await client.createProjectBranch(projectId, { branch: { name: "child", parent_id: dev } })).data.branch.id;
await client.createProjectBranchRole(projectId, child, { role: { name: "app" } });
results.created = await finish(first);
const all = (await client.listProjectOperations({ projectId, limit: 100 })).data.operations;
results.hasty = await waitForOperations(projectId, all);

// Branches.
results.states = (await client.listProjectBranches({ projectId })).data.branches.map((each) => each.current_state);
results.names = await listAllBranches({ projectId, sort_by: "created_at", sort_order: "asc" });
results.found = await listAllBranches({ projectId, search: "DEV" });
results.count = (await client.countProjectBranches({ projectId })).data.count;
results.shown = (await client.getProjectBranch(projectId, dev)).data;
results.annotations = (await client.listProjectBranches({ projectId })).data.annotations;
const soon = new Date(Date.now() + 86_400_000).toISOString();
const orphan = nameless.data.branch.id;
results.expiring = (await client.updateProjectBranch(projectId, orphan, { branch: { expires_at: soon } })).data.branch;
results.kept = (await client.updateProjectBranch(projectId, orphan, { branch: { expires_at: null } })).data.branch;
results.soon = soon;
results.default = (await client.setDefaultProjectBranch(projectId, dev)).data.branch;
results.stays = await expectError(() => client.deleteProjectBranch({ projectId, branchId: dev }));
await client.setDefaultProjectBranch(projectId, main);
results.parent = await expectError(() => client.deleteProjectBranch({ projectId, branchId: dev }));
results.resetBranch = await finish(client.restoreProjectBranch(projectId, orphan, { source_branch_id: main }));
results.restored = (await client.getProjectBranch(projectId, orphan)).data.branch;
results.itself = await expectError(() => client.restoreProjectBranch(projectId, orphan, { source_branch_id: orphan }));
results.deleted = await finish(client.deleteProjectBranch({ projectId, branchId: orphan }));
results.again = (await client.deleteProjectBranch({ projectId, branchId: orphan })).status;
results.missing = await expectError(() => client.getProjectBranch(projectId, orphan));
results.recovered = (await client.recoverProjectBranch(projectId, orphan)).data;
await finish(client.deleteProjectBranch({ projectId, branchId: orphan }));
results.deletedToo = (await client.listProjectBranches({ projectId, include_deleted: true })).data.branches.length;

// Endpoints.
const settings = { branch_id: child, type: "read_write", suspend_timeout_seconds: 120 };
results.endpoint = await finish(client.createProjectEndpoint(projectId, { endpoint: settings }));
const endpoint = results.endpoint.endpoint.id;
results.second = await expectError(() => client.createProjectEndpoint(projectId, { endpoint: settings }));
results.active = (await client.getProjectEndpoint(projectId, endpoint)).data.endpoint.current_state;
results.ofBranch = (await client.listProjectBranchEndpoints(projectId, child)).data.endpoints.map((each) => each.id);
results.ofProject = (await client.listProjectEndpoints(projectId)).data.endpoints.length;
results.updated = await finish(client.updateProjectEndpoint(projectId, endpoint, { endpoint: { name: "mine" } }));
results.verbs = [];
for (const verb of ["suspendProjectEndpoint", "startProjectEndpoint", "restartProjectEndpoint"]) {
  results.verbs.push((await finish(client[verb](projectId, endpoint))).actions);
}

// Roles and databases, with a name that must be quoted everywhere.
const name = 'It\'s "grün"/100% & more';
results.role = await finish(client.createProjectBranchRole(projectId, child, { role: { name } }));
results.roles = (await client.listProjectBranchRoles(projectId, child)).data.roles.map((each) => each.name);
results.oneRole = (await client.getProjectBranchRole(projectId, child, name)).data.role;
results.reset = await finish(client.resetProjectBranchRolePassword(projectId, child, name));
results.password = (await client.getProjectBranchRolePassword(projectId, child, name)).data.password;
const database = { name, owner_name: name };
results.database = await finish(client.createProjectBranchDatabase(projectId, child, { database }));
results.databases = (await client.listProjectBranchDatabases(projectId, child)).data.databases.map((each) => each.name);
results.oneDatabase = (await client.getProjectBranchDatabase(projectId, child, name)).data.database;
results.owner = await expectError(() => client.deleteProjectBranchRole(projectId, child, name));
const newOwner = { database: { owner_name: "app" } };
results.given = await finish(client.updateProjectBranchDatabase(projectId, child, name, newOwner));
results.dropped = await finish(client.deleteProjectBranchDatabase(projectId, child, name));
results.left = await finish(client.deleteProjectBranchRole(projectId, child, name));
results.nothing = (await client.deleteProjectBranchRole(projectId, child, name)).status;

results.noEndpoint = await finish(client.deleteProjectEndpoint(projectId, endpoint));
await client.deleteProject(projectId);

const TESTED = /Project(Branch(es)?|Endpoints?|Operations?)$|ProjectBranch(Endpoints|Roles?|RolePassword|Databases?)$/;
results.forgotten = methods.filter((method) => TESTED.test(method) && !called.has(method));
console.log(JSON.stringify(results));
