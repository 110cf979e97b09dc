"""Restoring a snapshot: a new branch is made of it, and may take the place of the branch that it was of.

In one step it takes that place as soon as it is made. In two steps it gets an endpoint of its own, to be looked at
by, and takes the place when its restore is finalized.
"""

from dataclasses import dataclass, replace

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control import branch_planning, endpoints, inheriting, seeding
from bough.control.desk import Desk
from bough.control.endpoint_planning import EndpointWish, planned
from bough.control.finalizing import check_is_same, finalizing, standing, takeover
from bough.control.snapshots import held_snapshot
from bough.domain import history
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.history import HEAD, Target
from bough.domain.operation import SOURCE, Operation, OperationAction, Reach, Touch
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.domain.snapshot import Snapshot, free_name
from bough.errors import RuleBroken
from bough.ids import BranchId, SnapshotId
from bough.operations.action import Wish
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRestore:
    """What a caller asked for; None where they said nothing."""

    name: str | None = None
    target_id: BranchId | None = None  # whose place it takes
    finalizes: bool = False  # at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSnapshot:
    branch: Branch
    endpoints: list[Endpoint]
    operations: list[Operation]
    creator: str | None  # the name of who made it


class SnapshotRestores:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def restore(self, held: Project, snapshot_id: SnapshotId, wish: SnapshotRestore) -> RestoredSnapshot:
        """One transaction: the branch, roles and databases of the one whose place it takes, and the work."""
        self._desk.check_makes_new()
        async with self._desk.store.read() as rows:
            expected = await _target(rows, held, await held_snapshot(rows, held.id, snapshot_id), wish)
        branch_id = BranchId.new()
        touches = [Touch(reach=Reach.BRANCH, project_id=held.id, branch_id=branch_id, source_id=snapshot_id)]
        if wish.finalizes and expected is not None:
            touches.append(finalizing(held.id, branch_id, expected.id).touch)
        async with self._desk.turn(*touches) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            snapshot = await held_snapshot(rows, project.id, snapshot_id)
            target = await _target(rows, project, snapshot, wish)
            check_is_same(expected, target)
            plan = await self._desk.plan_for(rows, project)
            await branch_planning.check_room(rows, project.id, plan)
            branch = replace(await self._planned(rows, project, snapshot, target, wish.name), id=branch_id)
            await seeding.plant(rows, branch)
            if target is not None:
                vault = self._desk.vault if project.store_passwords else None
                await inheriting.inherit(rows, target, branch, vault, rekeys=False)
            made = [] if wish.finalizes else [await _add_endpoint(rows, project, branch, plan)]
            self._desk.record.about(name=branch.name, branch=branch.id)
            after = await takeover(rows, branch, target) if wish.finalizes and target else endpoints.starts(*made)
            operations = await self._desk.enqueue(rows, _making(branch, snapshot), *after)
            creator = await rows.users.get(branch.created_by)
        for endpoint in made:
            await self._desk.names.announce(endpoint.id, project.region_id)
        return RestoredSnapshot(
            branch=branch, endpoints=made, operations=operations, creator=creator.name if creator else None
        )

    async def _planned(
        self, rows: Rows, project: Project, snapshot: Snapshot, target: Branch | None, name: str | None
    ) -> Branch:
        """A root, unless it is to take the place of one that has a parent."""
        taken = {each.name for each in await rows.branches.of_project(project.id)}
        if name is not None and name in taken:
            raise branch_planning.taken(name)
        branch = seeding.new_branch(
            project,
            name or free_name(f"{snapshot.name} restored", taken),
            clock.now(),
            created_by=self._desk.principal.user_id,
            annotations={},
            restored_from=snapshot.id,
        )
        branch = replace(branch, logical_size=snapshot.full_bytes)
        if target is None:
            return branch
        return replace(
            branch,
            parent_id=target.parent_id,
            parent_lsn=target.parent_lsn,
            parent_timestamp=target.parent_timestamp,
            is_protected=target.is_protected,
            restored_for=target.id,
        )


async def _target(rows: Rows, held: Project, snapshot: Snapshot, wish: SnapshotRestore) -> Branch | None:
    """The one that was asked for, or whoever stands in the place of the snapshot's own branch now."""
    if wish.target_id is not None:
        return await lookup.branch(rows, held, wish.target_id)
    found = await standing(rows, held.id, snapshot.branch_id)
    if found is None and wish.finalizes:
        raise RuleBroken(
            "The branch of this snapshot is gone, so there is no place to take: give target_branch_id, or leave out "
            "finalize_restore."
        )
    return found


async def _add_endpoint(rows: Rows, project: Project, branch: Branch, plan: Plan) -> Endpoint:
    """To look at it by, until it takes those of the other."""
    await endpoints.check_room(rows, project.id, plan, more=1)
    endpoint = planned(project, branch, EndpointType.READ_WRITE, EndpointWish(), plan=plan, now=branch.created_at)
    await endpoints.add(rows, endpoint)
    return endpoint


def _making(branch: Branch, snapshot: Snapshot) -> Wish:
    whole = history.written(Target(volume_id=snapshot.volume_id, point=HEAD))
    return Wish(OperationAction.CREATE_BRANCH, branch.project_id, branch.id, parameters={SOURCE: snapshot.id, **whole})
