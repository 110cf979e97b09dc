"""Snapshots: create, change, delete. Branches made of them are in `snapshot_restores`."""

from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control import points
from bough.control.archiving import ensure_unarchived
from bough.control.branch_planning import maker_of
from bough.control.desk import Desk
from bough.domain import history, snapshot
from bough.domain.branch import Branch, Volume
from bough.domain.history import HEAD, Point, Target
from bough.domain.operation import ALSO, SOURCE, VARIANT, Operation, OperationAction, Reach, Touch, Variant
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.domain.snapshot import SNAPSHOT, Snapshot, SnapshotState
from bough.errors import NotFound, RuleBroken, Taken
from bough.ids import BranchId, ProjectId, SnapshotId, VolumeId
from bough.operations.action import Wish
from bough.store.queries import Duplicate
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """What a caller asked for; None where they said nothing."""

    point: Point = HEAD
    name: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    name: str | None = None
    sets_expiration: bool = False
    expires_at: datetime | None = None  # None, when it is set: no expiration


class Snapshots:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, held: Project, branch_id: BranchId, wish: NewSnapshot) -> tuple[Snapshot, list[Operation]]:
        """One transaction: its row, its name, and the work."""
        self._desk.check_makes_new()
        now = clock.now()
        expires_at = snapshot.check_expiry(wish.expires_at, now)
        end = await points.end_of(self._desk, held, branch_id, wish.point)
        making = making_of(held.id, SnapshotId.new(), branch_id)
        async with self._desk.turn(making.touch) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            branch = await lookup.branch(rows, project, branch_id)
            snapshot.check_is_root(branch, "Snapshots")
            await check_room(rows, project.id, await self._desk.plan_for(rows, project))
            asked = "lsn" if wish.point.lsn else "timestamp"
            target = await points.resolve(self._desk, rows, project, branch, wish.point, name=asked, end=end)
            name = wish.name or await self._usual_name(rows, branch, wish.point.at or now)
            made = planned(making, branch, wish.point, name, now, expires_at=expires_at)
            await add(rows, made)
            self._desk.record.about(thing=made.id, name=made.name, branch=branch.id)
            first = await ensure_unarchived(rows, branch)
            behind = await maker_of(rows, branch)
            operations = await self._desk.enqueue(rows, *first, aimed(making, target), behind=behind)
        return made, operations

    async def change(self, held: Project, snapshot_id: SnapshotId, change: SnapshotChange) -> Snapshot:
        async with self._desk.store.read() as rows:
            await held_snapshot(rows, held.id, snapshot_id)
        touch = Touch(reach=Reach.ENDPOINT, project_id=held.id, also_id=snapshot_id)
        async with self._desk.turn(touch) as rows:
            before = await held_snapshot(rows, held.id, snapshot_id)
            now = clock.now()
            after = replace(before, name=change.name or before.name, updated_at=now)
            if change.sets_expiration:
                after = replace(after, expires_at=snapshot.check_expiry(change.expires_at, now))
            if after.name != before.name and await rows.snapshots.named(held.id, after.name):
                raise _taken(after.name)
            await rows.snapshots.save(after)
        return after

    async def delete(self, held: Project, snapshot_id: SnapshotId) -> list[Operation]:
        """Nobody finds it from now on; the work makes its data go."""
        async with self._desk.store.read() as rows:
            await held_snapshot(rows, held.id, snapshot_id)
        removing = removing_of(held.id, snapshot_id)
        async with self._desk.turn(removing.touch) as rows:
            await remove(rows, await held_snapshot(rows, held.id, snapshot_id))
            return await self._desk.enqueue(rows, removing)

    async def _usual_name(self, rows: Rows, branch: Branch, at: datetime) -> str:
        taken = await rows.snapshots.names_in(branch.project_id)
        return snapshot.free_name(snapshot.usual_name(branch.name, at), taken)


def making_of(project_id: ProjectId, snapshot_id: SnapshotId, branch_id: BranchId) -> Wish:
    """The work, before it is known which volume is copied."""
    own = {VARIANT: Variant.SNAPSHOT, SNAPSHOT: snapshot_id, ALSO: snapshot_id, SOURCE: branch_id}
    return Wish(OperationAction.CREATE_BRANCH, project_id, parameters=own)


def aimed(making: Wish, target: Target) -> Wish:
    return replace(making, parameters={**making.parameters, **history.written(target)})


def planned(
    making: Wish,
    branch: Branch,
    point: Point,
    name: str,
    now: datetime,
    *,
    expires_at: datetime | None,
    is_manual: bool = True,
) -> Snapshot:
    return Snapshot(
        id=making.parameters[SNAPSHOT],
        project_id=branch.project_id,
        branch_id=branch.id,
        volume_id=VolumeId.new(),
        name=name,
        state=SnapshotState.INIT,
        is_manual=is_manual,
        created_at=now,
        updated_at=now,
        lsn=point.lsn,
        at=point.at,
        expires_at=expires_at,
    )


async def add(rows: Rows, made: Snapshot) -> None:
    if await rows.snapshots.named(made.project_id, made.name):
        raise _taken(made.name)
    await rows.lineages.add_volume(Volume(id=made.volume_id, project_id=made.project_id, created_at=made.created_at))
    try:
        await rows.snapshots.add(made)
    except Duplicate:
        raise _taken(made.name) from None


def removing_of(project_id: ProjectId, snapshot_id: SnapshotId) -> Wish:
    own = {VARIANT: Variant.SNAPSHOT, SNAPSHOT: snapshot_id, ALSO: snapshot_id}
    return Wish(OperationAction.DELETE_TIMELINE, project_id, parameters=own)


async def remove(rows: Rows, held: Snapshot) -> None:
    now = clock.now()
    await rows.snapshots.save(replace(held, deleted_at=now, updated_at=now))


async def held_snapshot(rows: Rows, project_id: ProjectId, snapshot_id: SnapshotId) -> Snapshot:
    found = await rows.snapshots.get(project_id, snapshot_id)
    if found is None or found.deleted_at is not None:
        raise NotFound.thing("snapshot")
    return found


async def check_room(rows: Rows, project_id: ProjectId, plan: Plan) -> None:
    """For one more."""
    if await rows.snapshots.count_in(project_id) >= plan.snapshots:
        raise RuleBroken(
            f"The project has {plan.snapshots} snapshots, all that its plan allows. Delete one, or change the plan.",
            code="SNAPSHOTS_LIMIT_EXCEEDED",
        )


def _taken(name: str) -> Taken:
    return Taken(f"The project has a snapshot named {name!r} already. Choose another name.")
