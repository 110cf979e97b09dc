// Drives snapshots, their schedules and restores with the published npm client; prints the results as JSON.
// Usage: node drive_snapshots.mjs <node_modules> <base url> <key>

import { called, client, expectError, methods, waitForOperations } from "./api_client.mjs";

const results = {};
const created = (await client.createProject({ project: { name: "npm snapshots" } })).data;
const projectId = created.project.id;
const branchId = created.branch.id;

async function finish(response) {
  const { data, status } = await response;
  const statuses = await waitForOperations(projectId, data.operations);
  return { ...data, status, actions: data.operations.map((each) => each.action), statuses };
}

// The snapshot is requested without waiting for the operations of the project.
const expires_at = new Date(Date.now() + 3_600_000).toISOString();
results.created = await finish(client.createSnapshot({ projectId, branchId, name: "first", expires_at }));
const snapshotId = results.created.snapshot.id;
results.both = await expectError(() =>
  client.createSnapshot({ projectId, branchId, lsn: "0/1", timestamp: "2026-01-01T00:00:00Z" }),
);
results.updated = (await client.updateSnapshot(projectId, snapshotId, { snapshot: { name: "kept" } })).data.snapshot;
results.listed = (await client.listSnapshots(projectId)).data.snapshots;

// Restores in two steps, and in one.
results.restored = await finish(client.restoreSnapshot({ projectId, snapshotId }, { name: "look" }));
const candidate = results.restored.branch.id;
results.finalized = await finish(client.finalizeRestoreBranch(projectId, candidate, { name: "before" }));
results.new = (await client.getProjectBranch(projectId, candidate)).data.branch;
results.old = (await client.getProjectBranch(projectId, branchId)).data.branch;
results.twice = await expectError(() => client.finalizeRestoreBranch(projectId, candidate));
results.oneStep = await finish(client.restoreSnapshot({ projectId, snapshotId }, { finalize_restore: true }));
const branches = (await client.listProjectBranches({ projectId, sort_by: "name", sort_order: "asc" })).data.branches;
results.names = branches.map((each) => each.name);
results.endpoints = (await client.listProjectBranchEndpoints(projectId, results.oneStep.branch.id)).data.endpoints;

const schedule = [{ frequency: "daily", hour: 5, retention_seconds: 86_400 }];
results.set = (await client.setSnapshotSchedule(projectId, candidate, { schedule })).data;
results.schedule = (await client.getSnapshotSchedule(projectId, candidate)).data.schedule;
results.deleted = await finish(client.deleteSnapshot(projectId, snapshotId));
results.left = (await client.listSnapshots(projectId)).data.snapshots;
await client.deleteProject(projectId);

results.endpoint = created.endpoints[0].id;
results.forgotten = methods.filter((method) => /Snapshot|finalize/i.test(method) && !called.has(method));
console.log(JSON.stringify(results));
