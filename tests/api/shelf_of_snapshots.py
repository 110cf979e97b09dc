"""Snapshots of a project as someone meets them over the API; nobody does the work behind them."""

from typing import Any

from api.callers import Json
from api.trees import Tree
from bough.domain.branch import BranchState, moved
from bough.domain.snapshot import Snapshot
from bough.ids import ProjectId, SnapshotId


def of_branch(tree: Tree, branch_id: str | None = None) -> str:
    return f"{tree.of(branch_id or tree.main)}/snapshot"


def one(tree: Tree, snapshot_id: str) -> str:
    return f"{tree.path}/snapshots/{snapshot_id}"


async def taken(tree: Tree, branch_id: str | None = None, **query: Any) -> Json:
    """A snapshot, as the answer that made it; its work is over."""
    made = await tree.ask("POST", of_branch(tree, branch_id), **query)
    await tree.settles()
    return made


async def names(tree: Tree) -> list[str]:
    return [each["name"] for each in (await tree.ask("GET", f"{tree.path}/snapshots"))["snapshots"]]


async def row(tree: Tree, snapshot_id: str) -> Snapshot | None:
    async with tree.caller.front.parts.store.read() as rows:
        return await rows.snapshots.get(ProjectId(tree.id), SnapshotId(snapshot_id))


async def refused(tree: Tree, status: int, method: str, path: str, body: Any = None, **query: Any) -> Json:
    """The refusal, after which nothing is other than it was."""
    before = await tree.picture(), await tree.ask("GET", f"{tree.path}/snapshots")
    answer = await tree.ask(method, path, body, status=status, **query)
    assert (await tree.picture(), await tree.ask("GET", f"{tree.path}/snapshots")) == before
    return answer


async def restored(tree: Tree, snapshot_id: str, **asked: Any) -> Json:
    """A branch made of a snapshot, as the answer that made it; its work is over and the rows say that it is there."""
    made = await tree.ask("POST", f"{one(tree, snapshot_id)}/restore", asked)
    await tree.settles()
    branch = await tree.branch_row(made["branch"]["id"])
    async with tree.caller.front.parts.store.transaction() as rows:
        await rows.branches.save(moved(branch, BranchState.READY, branch.updated_at))
    return made
