"""Branches: create, change, delete, make one the default."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control import endpoints, inheriting, seeding
from bough.control.desk import Desk
from bough.control.endpoint_planning import EndpointWish, planned
from bough.control.inheriting import Inheritance
from bough.domain import branch as branches
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.operation import MAKES_BRANCH, SOURCE, VARIANT, Operation, OperationAction, Reach, Touch
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import Invalid, NotFound, RuleBroken, Taken
from bough.ids import BranchId, OperationId
from bough.operations.action import Wish
from bough.operations.actions.create_branch import REKEYS
from bough.store.queries import Duplicate
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBranch:
    """What a caller asked for; None where they said nothing."""

    parent_id: BranchId | None = None
    name: str | None = None
    is_protected: bool = False
    expires_at: datetime | None = None
    init_source: str | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[tuple[EndpointType, EndpointWish], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchChange:
    name: str | None = None
    is_protected: bool | None = None
    sets_expiration: bool = False
    expires_at: datetime | None = None  # None, when it is set: no expiration


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
        _check_wish(wish)
        parent_id = wish.parent_id or await self._default_id(held)
        touch = Touch(reach=Reach.BRANCH, project_id=held.id, branch_id=BranchId.new(), source_id=parent_id)
        async with self._desk.turn(touch) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            parent = await lookup.branch(rows, project, parent_id)
            plan = await self._desk.plan_for(rows, project)
            await self._check_room(rows, project, plan, len(wish.endpoints))
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
            source = {SOURCE: parent.id, REKEYS: parent.is_protected}
            operations = await self._desk.enqueue(
                rows,
                Wish(OperationAction.CREATE_BRANCH, project.id, branch.id, parameters=source),
                *endpoints.starts(*made),
                behind=await _maker_of(rows, parent),
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

    async def change(self, held: Project, branch_id: BranchId, change: BranchChange) -> Branch:
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
                await _check_name(rows, held, after.name)
            await rows.branches.save(after)
            served = await rows.endpoints.of_branch(branch_id)
        if after.is_protected != before.is_protected:  # who may enter depends on it
            await self._desk.changed(*(endpoint.id for endpoint in served))
        return after

    async def set_default(self, held: Project, branch_id: BranchId) -> Branch:
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
        return after

    async def delete(self, held: Project, branch_id: BranchId) -> tuple[Branch, list[Operation]] | None:
        """Its computes stop and its data goes. None: it is gone already, which nobody waits to hear."""
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
            gone = await remove(rows, branch, method="user")
            operations = await self._desk.enqueue(rows, gone.wish)
        await self._desk.changed(*(endpoint.id for endpoint in gone.endpoints))
        return gone.branch, operations

    async def _default_id(self, held: Project) -> BranchId:
        async with self._desk.store.read() as rows:
            default = await rows.branches.default(held.id)
        if default is None:
            raise NotFound.thing("branch")
        return default.id

    async def _check_room(self, rows: Rows, project: Project, plan: Plan, more_endpoints: int) -> None:
        if await rows.branches.count_in(project.id) >= plan.branches:
            raise RuleBroken(
                f"The project has {plan.branches} branches, all that its plan allows. Delete one, or change the plan.",
                code="BRANCHES_LIMIT_EXCEEDED",
            )
        await endpoints.check_room(rows, project.id, plan, more=more_endpoints)

    async def _planted(self, rows: Rows, project: Project, parent: Branch, wish: NewBranch) -> Branch:
        branches.check_may_have_children(parent)
        now = clock.now()
        branch = seeding.new_branch(
            project,
            wish.name,
            now,
            parent_id=parent.id,
            is_protected=wish.is_protected,
            init_source=wish.init_source or branches.PARENT_DATA,
            annotations=dict(wish.annotations),
            created_by=self._desk.principal.user_id,
        )
        branch = branches.expiring(branch, wish.expires_at, now)
        branches.check_may_expire(branch, has_children=False)
        await _check_name(rows, project, branch.name)
        try:
            await seeding.plant(rows, branch)
        except Duplicate:
            raise _taken(branch.name) from None
        return branch


@dataclass(frozen=True, slots=True)
class Removal:
    branch: Branch
    endpoints: list[Endpoint]
    wish: Wish


async def remove(rows: Rows, branch: Branch, *, method: str) -> Removal:
    """Nobody can reach it from now on; the wish makes its data go."""
    branches.check_deletable(branch, has_children=await rows.branches.has_children(branch.id))
    now = clock.now()
    deleted = replace(branch, deleted_at=now, deletion_method=method, updated_at=now)
    await rows.branches.save(deleted)
    gone = await rows.endpoints.of_branch(branch.id)
    for endpoint in gone:
        await rows.endpoints.save(replace(endpoint, deleted_at=now, pending_state=None, updated_at=now))
    return Removal(deleted, gone, Wish(OperationAction.DELETE_TIMELINE, branch.project_id, branch.id))


def _check_wish(wish: NewBranch) -> None:
    known = (branches.PARENT_DATA, branches.SCHEMA_ONLY)
    if wish.init_source is not None and wish.init_source not in known:
        raise Invalid(f"init_source is {wish.init_source!r}: use {' or '.join(map(repr, known))}.")
    if [kind for kind, _ in wish.endpoints].count(EndpointType.READ_WRITE) > 1:
        raise Invalid("A branch has one read_write endpoint; ask for one, and for read_only ones beside it.")


async def _check_name(rows: Rows, project: Project, name: str) -> None:
    if await rows.branches.named(project.id, name):
        raise _taken(name)


def _taken(name: str) -> Taken:
    return Taken(f"The project has a branch named {name!r} already. Choose another name.")


async def _maker_of(rows: Rows, parent: Branch) -> OperationId | None:
    """The last of the work that makes the parent, when it is not over: a copy of it comes after that.

    A root branch has its role and database only once its first compute has started.
    """
    wished = any(role.is_wished for role in await rows.roles.of_branch(parent.id))
    making = MAKES_BRANCH | ({OperationAction.START_COMPUTE} if wished else frozenset())
    open_work = await rows.operations.open_of(parent.project_id)
    work = [each for each in open_work if each.branch_id == parent.id and VARIANT not in each.parameters]
    return next((each.id for each in reversed(work) if each.action in making), None)
