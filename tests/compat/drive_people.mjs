// Drives organizations, keys, sharing and transfer with the published npm client; prints what it saw as JSON.
// Usage: node drive_people.mjs <node_modules> <base url> <key>

import { called, calls, client, ended, failure } from "./api_client.mjs";

const [, baseURL, apiKey] = process.argv.slice(2);
const seen = {};

// The published API has no call that makes an organization.
async function found(name) {
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const answer = await fetch(`${baseURL}/bough/organizations`, { method: "POST", headers, body: JSON.stringify({ name }) });
  return (await answer.json()).id;
}

const orchard = await found("Orchard");
const meadow = await found("Meadow");
seen.orchard = orchard;
seen.organization = (await client.getOrganization(orchard)).data;
seen.mine = (await client.getCurrentUserOrganizations()).data.organizations.map((each) => each.id);

// People.
const [{ member }] = (await client.getOrganizationMembers({ orgId: orchard })).data.members;
seen.member = (await client.getOrganizationMember(orchard, member.id)).data;
seen.demoted = await failure(() => client.updateOrganizationMember(orchard, member.id, { role: "viewer" }));
seen.left = await failure(() => client.removeOrganizationMember(orchard, member.id));
const invitations = [{ email: "ada@example.com", role: "member" }];
seen.invited = (await client.createOrganizationInvitations(orchard, { invitations })).data.invitations;
seen.invitations = (await client.getOrganizationInvitations(orchard)).data.invitations;

// Keys.
const made = (await client.createProject({ project: { name: "npm people", org_id: orchard } })).data;
const projectId = made.project.id;
await ended(projectId, made.operations);
seen.orgKey = (await client.createOrgApiKey(orchard, { key_name: "all" })).data;
seen.projectKey = (await client.createOrgApiKey(orchard, { key_name: "one", project_id: projectId })).data;
seen.keys = (await client.listOrgApiKeys(orchard)).data;
seen.revoked = (await client.revokeOrgApiKey(orchard, seen.orgKey.id)).data;

// Sharing.
const permission = (await client.grantPermissionToProject(projectId, { email: "ben@example.com" })).data;
seen.permissions = (await client.listProjectPermissions(projectId)).data.project_permissions;
seen.unshared = (await client.revokePermissionFromProject(projectId, permission.id)).data;
seen.shared = (await client.listSharedProjects({})).data.projects;

// Transfer.
const body = { destination_org_id: meadow, project_ids: [projectId] };
seen.transferred = (await client.transferProjectsFromOrgToOrg(orchard, body)).data;
seen.owner = (await client.getProject(projectId)).data.project.org_id === meadow;
seen.remaining = (await client.listOrgApiKeys(orchard)).data.length;
const own = (await client.createProject({ project: { name: "npm own" } })).data;
await ended(own.project.id, own.operations);
const mine = { destination_org_id: orchard, project_ids: [own.project.id] };
seen.given = (await client.transferProjectsFromUserToOrg(mine)).data;
seen.elsewhere = await failure(() => client.transferProjectsFromUserToOrg(mine));
const offer = await client.createProjectTransferRequest(projectId, { ttl_seconds: 60 });
const accepted = await client.acceptProjectTransferRequest(projectId, offer.data.id, { org_id: orchard });
seen.offered = [offer.status, accepted.status];
seen.again = await failure(() => client.acceptProjectTransferRequest(projectId, offer.data.id, { org_id: orchard }));
await client.deleteProject(projectId);
await client.deleteProject(own.project.id);

const theirs = /Org(anization|ApiKey|To)|Permission|SharedProjects|[tT]ransfer/;
seen.forgotten = calls.filter((name) => theirs.test(name) && !called.has(name));
console.log(JSON.stringify(seen));
