// Drives organizations, keys, sharing and transfer with the published npm client; prints the results as JSON.
// Usage: node drive_people.mjs <node_modules> <base url> <key>

import { called, client, expectError, methods, waitForOperations } from "./api_client.mjs";

const [, baseURL, apiKey] = process.argv.slice(2);
const results = {};

// The published API has no call that creates an organization.
async function createOrganization(name) {
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const response = await fetch(`${baseURL}/bough/organizations`, { method: "POST", headers, body: JSON.stringify({ name }) });
  return (await response.json()).id;
}

const orchard = await createOrganization("Orchard");
const meadow = await createOrganization("Meadow");
results.orchard = orchard;
results.organization = (await client.getOrganization(orchard)).data;
results.mine = (await client.getCurrentUserOrganizations()).data.organizations.map((each) => each.id);

// People.
const [{ member }] = (await client.getOrganizationMembers({ orgId: orchard })).data.members;
results.member = (await client.getOrganizationMember(orchard, member.id)).data;
results.demoted = await expectError(() => client.updateOrganizationMember(orchard, member.id, { role: "viewer" }));
results.left = await expectError(() => client.removeOrganizationMember(orchard, member.id));
const invitations = [{ email: "ada@example.com", role: "member" }];
results.invited = (await client.createOrganizationInvitations(orchard, { invitations })).data.invitations;
results.invitations = (await client.getOrganizationInvitations(orchard)).data.invitations;

// Keys.
const created = (await client.createProject({ project: { name: "npm people", org_id: orchard } })).data;
const projectId = created.project.id;
await waitForOperations(projectId, created.operations);
results.orgKey = (await client.createOrgApiKey(orchard, { key_name: "all" })).data;
results.projectKey = (await client.createOrgApiKey(orchard, { key_name: "one", project_id: projectId })).data;
results.keys = (await client.listOrgApiKeys(orchard)).data;
results.revoked = (await client.revokeOrgApiKey(orchard, results.orgKey.id)).data;

// Sharing.
const permission = (await client.grantPermissionToProject(projectId, { email: "ben@example.com" })).data;
results.permissions = (await client.listProjectPermissions(projectId)).data.project_permissions;
results.unshared = (await client.revokePermissionFromProject(projectId, permission.id)).data;
results.shared = (await client.listSharedProjects({})).data.projects;

// Transfer.
const body = { destination_org_id: meadow, project_ids: [projectId] };
results.transferred = (await client.transferProjectsFromOrgToOrg(orchard, body)).data;
results.owner = (await client.getProject(projectId)).data.project.org_id === meadow;
results.remaining = (await client.listOrgApiKeys(orchard)).data.length;
const own = (await client.createProject({ project: { name: "npm own" } })).data;
await waitForOperations(own.project.id, own.operations);
const mine = { destination_org_id: orchard, project_ids: [own.project.id] };
results.given = (await client.transferProjectsFromUserToOrg(mine)).data;
results.elsewhere = await expectError(() => client.transferProjectsFromUserToOrg(mine));
const offer = await client.createProjectTransferRequest(projectId, { ttl_seconds: 60 });
const accepted = await client.acceptProjectTransferRequest(projectId, offer.data.id, { org_id: orchard });
results.offered = [offer.status, accepted.status];
results.again = await expectError(() => client.acceptProjectTransferRequest(projectId, offer.data.id, { org_id: orchard }));
await client.deleteProject(projectId);
await client.deleteProject(own.project.id);

const TESTED = /Org(anization|ApiKey|To)|Permission|SharedProjects|[tT]ransfer/;
results.forgotten = methods.filter((name) => TESTED.test(name) && !called.has(name));
console.log(JSON.stringify(results));
