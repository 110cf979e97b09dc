"""Helpers to create and restore snapshots over the API. Operations do not run by themselves."""

from typing import Any

from api.project_client import ProjectClient
from bough.domain.branch import BranchState, transition_branch
from bough.domain.snapshot import Snapshot
from bough.ids import ProjectId, SnapshotId
from support.api_client import Json


def branch_snapshot_path(tree: ProjectClient, branch_id: str | None = None) -> str:
    return f"{tree.branch_path(branch_id or tree.main_branch_id)}/snapshot"


def snapshot_path(tree: ProjectClient, snapshot_id: str) -> str:
    return f"{tree.path}/snapshots/{snapshot_id}"


async def create_snapshot(tree: ProjectClient, branch_id: str | None = None, **query: Any) -> Json:
    """Creates a snapshot, finishes its operations, and returns the response."""
    created = await tree.request("POST", branch_snapshot_path(tree, branch_id), **query)
    await tree.finish_operations()
    return created


async def list_snapshot_names(tree: ProjectClient) -> list[str]:
    return [each["name"] for each in (await tree.request("GET", f"{tree.path}/snapshots"))["snapshots"]]


async def get_snapshot_row(tree: ProjectClient, snapshot_id: str) -> Snapshot | None:
    async with tree.caller.api_app.services.store.read() as rows:
        return await rows.snapshots.get(ProjectId(tree.id), SnapshotId(snapshot_id))


async def expect_error(
    tree: ProjectClient, status: int, method: str, path: str, body: Any = None, **query: Any
) -> Json:
    """Returns the message of a rejected request, and checks that it changed nothing."""
    before = await tree.read_state(), await tree.request("GET", f"{tree.path}/snapshots")
    response = await tree.request(method, path, body, status=status, **query)
    assert (await tree.read_state(), await tree.request("GET", f"{tree.path}/snapshots")) == before
    return response


async def restore_snapshot(tree: ProjectClient, snapshot_id: str, **requested: Any) -> Json:
    """Restores a snapshot to a new branch, finishes the operations, and returns the response."""
    created = await tree.request("POST", f"{snapshot_path(tree, snapshot_id)}/restore", requested)
    await tree.finish_operations()
    branch = await tree.get_branch_row(created["branch"]["id"])
    async with tree.caller.api_app.services.store.transaction() as rows:
        await rows.branches.save(transition_branch(branch, BranchState.READY, branch.updated_at))
    return created
