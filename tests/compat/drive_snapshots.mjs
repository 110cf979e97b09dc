// Drives snapshots, their schedules and what is restored from them with the published npm client; prints what it saw.
// Usage: node drive_snapshots.mjs <node_modules> <base url> <key>

import { called, calls, client, ended, failure } from "./api_client.mjs";

const seen = {};
const made = (await client.createProject({ project: { name: "npm snapshots" } })).data;
const projectId = made.project.id;
const branchId = made.branch.id;

async function done(answer) {
  const { data, status } = await answer;
  const statuses = await ended(projectId, data.operations);
  return { ...data, status, actions: data.operations.map((each) => each.action), statuses };
}

// Nobody waits: the snapshot comes after the project's own work.
const expires_at = new Date(Date.now() + 3_600_000).toISOString();
seen.created = await done(client.createSnapshot({ projectId, branchId, name: "first", expires_at }));
const snapshotId = seen.created.snapshot.id;
seen.both = await failure(() =>
  client.createSnapshot({ projectId, branchId, lsn: "0/1", timestamp: "2026-01-01T00:00:00Z" }),
);
seen.updated = (await client.updateSnapshot(projectId, snapshotId, { snapshot: { name: "kept" } })).data.snapshot;
seen.listed = (await client.listSnapshots(projectId)).data.snapshots;

// In two steps, and in one.
seen.restored = await done(client.restoreSnapshot({ projectId, snapshotId }, { name: "look" }));
const look = seen.restored.branch.id;
seen.finalized = await done(client.finalizeRestoreBranch(projectId, look, { name: "before" }));
seen.new = (await client.getProjectBranch(projectId, look)).data.branch;
seen.old = (await client.getProjectBranch(projectId, branchId)).data.branch;
seen.twice = await failure(() => client.finalizeRestoreBranch(projectId, look));
seen.oneStep = await done(client.restoreSnapshot({ projectId, snapshotId }, { finalize_restore: true }));
const branches = (await client.listProjectBranches({ projectId, sort_by: "name", sort_order: "asc" })).data.branches;
seen.names = branches.map((each) => each.name);
seen.endpoints = (await client.listProjectBranchEndpoints(projectId, seen.oneStep.branch.id)).data.endpoints;

const schedule = [{ frequency: "daily", hour: 5, retention_seconds: 86_400 }];
seen.set = (await client.setSnapshotSchedule(projectId, look, { schedule })).data;
seen.schedule = (await client.getSnapshotSchedule(projectId, look)).data.schedule;
seen.deleted = await done(client.deleteSnapshot(projectId, snapshotId));
seen.left = (await client.listSnapshots(projectId)).data.snapshots;
await client.deleteProject(projectId);

seen.endpoint = made.endpoints[0].id;
seen.forgotten = calls.filter((call) => /Snapshot|finalize/i.test(call) && !called.has(call));
console.log(JSON.stringify(seen));
