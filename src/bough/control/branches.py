"""Branches: create, change, delete, make one the default."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control import archiving, deletions, endpoints, inheriting, points, seeding
from bough.control.archiving import ensure_unarchived
from bough.control.branch_planning import (
    BranchChange,
    NewBranch,
    check_name,
    check_room,
    check_wish,
    maker_of,
    taken,
)
from bough.control.desk import Desk
from bough.control.endpoint_planning import planned
from bough.control.inheriting import Inheritance
from bough.domain import branch as branches
from bough.domain import history
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.history import Point
from bough.domain.operation import SOURCE, Operation, OperationAction, Reach, Touch
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import NotFound, RuleBroken
from bough.ids import BranchId
from bough.operations.action import Wish
from bough.operations.actions.create_branch import REKEYS
from bough.store.queries import Duplicate
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedBranch:
    branch: Branch
    endpoints: list[Endpoint]
    inheritance: Inheritance
    operations: list[Operation]
    creator: str | None  # the name of who made it


class Branches:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, held: Project, wish: NewBranch) -> CreatedBranch:
        """One transaction: the branch, the roles and databases of its parent, its endpoints, and the work."""
        self._desk.check_makes_new()
        check_wish(wish)
        parent_id = wish.parent_id or await self._default_id(held)
        end = await points.end_of(self._desk, held, parent_id, wish.point)
        touch = Touch(reach=Reach.BRANCH, project_id=held.id, branch_id=BranchId.new(), source_id=parent_id)
        async with self._desk.turn(touch) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            parent = await lookup.branch(rows, project, parent_id)
            plan = await self._desk.plan_for(rows, project)
            await self._check_room(rows, project, plan, len(wish.endpoints))
            parameters = {SOURCE: parent.id, REKEYS: parent.is_protected}
            parameters |= await self._point(rows, project, parent, wish.point, end)
            branch = await self._planted(rows, project, parent, wish)
            self._desk.record.about(thing=branch.id, name=branch.name)
            # A microsecond apart, so that lists show them in the order they were asked for.
            made = [
                planned(project, branch, kind, each, plan=plan, now=branch.created_at + timedelta(microseconds=place))
                for place, (kind, each) in enumerate(wish.endpoints)
            ]
            for endpoint in made:
                await endpoints.add(rows, endpoint)
            creator = await rows.users.get(branch.created_by)
            vault = self._desk.vault if project.store_passwords else None
            inheritance = await inheriting.inherit(rows, parent, branch, vault)
            operations = await self._desk.enqueue(
                rows,
                *await archiving.ensure_unarchived(rows, parent),
                Wish(OperationAction.CREATE_BRANCH, project.id, branch.id, parameters=parameters),
                *endpoints.starts(*made),
                *([archiving.archived_from_birth(branch, made)] if wish.is_archived else []),
                behind=await maker_of(rows, parent),
            )
        for endpoint in made:
            await self._desk.names.announce(endpoint.id, project.region_id)
        return CreatedBranch(
            branch=branch,
            endpoints=made,
            inheritance=inheritance,
            operations=operations,
            creator=creator.name if creator else None,
        )

    async def change(self, held: Project, branch_id: BranchId, change: BranchChange) -> tuple[Branch, list[Operation]]:
        """A protected branch is never archived, so one that is comes back when it becomes protected."""
        async with self._desk.turn(Touch(reach=Reach.ENDPOINT, project_id=held.id, branch_id=branch_id)) as rows:
            before = await lookup.branch(rows, held, branch_id)
            now = clock.now()
            after = replace(
                before,
                name=change.name or before.name,
                is_protected=before.is_protected if change.is_protected is None else change.is_protected,
                updated_at=now,
            )
            if change.sets_expiration:
                after = branches.expiring(after, change.expires_at, now)
            branches.check_may_expire(after, has_children=await rows.branches.has_children(branch_id))
            if after.name != before.name:
                await check_name(rows, held, after.name)
            await rows.branches.save(after)
            served = await rows.endpoints.of_branch(branch_id)
            first = await ensure_unarchived(rows, after) if after.is_protected else []
            operations = await self._desk.enqueue(rows, *first)
        if after.is_protected != before.is_protected:  # who may enter depends on it
            await self._desk.changed(*(endpoint.id for endpoint in served))
        return after, operations

    async def set_default(self, held: Project, branch_id: BranchId) -> tuple[Branch, list[Operation]]:
        async with self._desk.turn(Touch(reach=Reach.ENDPOINT, project_id=held.id, branch_id=branch_id)) as rows:
            branch = await lookup.branch(rows, held, branch_id)
            if branch.expires_at is not None:
                raise RuleBroken(f"The branch {branch.name!r} expires. Clear its expires_at, then make it the default.")
            now = clock.now()
            before = await rows.branches.default(held.id)
            if before is not None and before.id != branch.id:
                await rows.branches.save(replace(before, is_default=False, updated_at=now))
            after = replace(branch, is_default=True, updated_at=now)
            await rows.branches.save(after)
            operations = await self._desk.enqueue(rows, *await ensure_unarchived(rows, after))
        return after, operations

    async def delete(self, held: Project, branch_id: BranchId) -> tuple[Branch, list[Operation]] | None:
        """Its computes stop, and its data stays until it can be recovered no longer.

        None: it is gone already, which nobody waits to hear.
        """
        async with self._desk.store.read() as rows:
            known = await rows.branches.get(held.id, branch_id)
        if known is not None and known.deleted_at is not None:
            return None
        async with self._desk.turn(Touch(reach=Reach.BRANCH, project_id=held.id, branch_id=branch_id)) as rows:
            branch = await rows.branches.get(held.id, branch_id)
            if branch is None:
                raise NotFound.thing("branch")
            if branch.deleted_at is not None:
                self._desk.record.withdraw()
                return None
            seconds = self._desk.settings.recoverable_branch_seconds
            gone = await deletions.remove(rows, branch, method="user", recoverable_seconds=seconds)
            operations = await self._desk.enqueue(rows, *gone.wishes)
        await self._desk.changed(*(endpoint.id for endpoint in gone.endpoints))
        return gone.branch, operations

    async def _default_id(self, held: Project) -> BranchId:
        async with self._desk.store.read() as rows:
            default = await rows.branches.default(held.id)
        if default is None:
            raise NotFound.thing("branch")
        return default.id

    async def _check_room(self, rows: Rows, project: Project, plan: Plan, more_endpoints: int) -> None:
        await check_room(rows, project.id, plan)
        await endpoints.check_room(rows, project.id, plan, more=more_endpoints)

    async def _point(
        self, rows: Rows, project: Project, parent: Branch, point: Point, end: str | None
    ) -> Mapping[str, str]:
        """Which point of whose life it begins with; nothing, when that is the parent as it is now."""
        if point.is_head:
            return {}
        name = "parent_lsn" if point.lsn is not None else "parent_timestamp"
        return history.written(await points.resolve(self._desk, rows, project, parent, point, name=name, end=end))

    async def _planted(self, rows: Rows, project: Project, parent: Branch, wish: NewBranch) -> Branch:
        branches.check_may_have_children(parent)
        now = clock.now()
        branch = seeding.new_branch(
            project,
            wish.name,
            now,
            parent_id=parent.id,
            parent_lsn=wish.point.lsn,
            parent_timestamp=wish.point.at,
            is_protected=wish.is_protected,
            init_source=wish.init_source or branches.PARENT_DATA,
            annotations=dict(wish.annotations),
            created_by=self._desk.principal.user_id,
        )
        branch = branches.expiring(branch, wish.expires_at, now)
        branches.check_may_expire(branch, has_children=False)
        await check_name(rows, project, branch.name)
        try:
            await seeding.plant(rows, branch)
        except Duplicate:
            raise taken(branch.name) from None
        return branch
