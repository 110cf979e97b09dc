"""A deleted branch comes back as it was: its data, its history, its roles with their passwords, its databases, and
the endpoints that went with it, so that connection strings work again. Its computes wake when somebody connects.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.access import lookup
from bough.control import branch_planning, endpoints
from bough.control.archiving import ensure_unarchived
from bough.control.desk import Desk
from bough.domain.branch import Branch, BranchState
from bough.domain.endpoint import Endpoint, EndpointState, moved
from bough.domain.operation import Reach, Touch
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import Invalid, NotFound, RuleBroken, Taken
from bough.ids import BranchId
from bough.operations.action import Wish
from bough.store.store import Rows


@dataclass(frozen=True, slots=True)
class Recovered:
    branch: Branch
    endpoints: list[Endpoint]


class Recovering:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def recover(self, held: Project, branch_id: BranchId) -> Recovered:
        async with self._desk.turn(Touch(reach=Reach.BRANCH, project_id=held.id, branch_id=branch_id)) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            branch = await rows.branches.get(held.id, branch_id)
            now = clock.now()
            _check_recoverable(branch, now)
            assert branch is not None
            self._desk.record.about(thing=branch.id, name=branch.name)
            await self._check_place(rows, branch)
            with_it = [
                each for each in await rows.endpoints.every_of(branch.id) if each.deleted_at == branch.deleted_at
            ]
            plan = await self._desk.plan_for(rows, project)
            await branch_planning.check_room(rows, project.id, plan)
            await endpoints.check_room(rows, project.id, plan, more=len(with_it))
            back = _alive(branch, now)
            await rows.branches.save(back)
            served = [_asleep(each, now) for each in with_it]
            for endpoint in served:
                await rows.endpoints.save(endpoint)
            await self._desk.enqueue(rows, *await self._elders(rows, back))
        for endpoint in served:
            await self._desk.names.announce(endpoint.id, project.region_id)
        await self._desk.changed(*(endpoint.id for endpoint in served))
        return Recovered(back, sorted(served, key=lambda each: (each.created_at, each.id)))

    async def _check_place(self, rows: Rows, branch: Branch) -> None:
        """Its name is free, and its parent there."""
        if await rows.branches.named(branch.project_id, branch.name):
            raise Taken(
                f"The project has another branch named {branch.name!r} by now. Rename or delete that one, "
                "then recover this one."
            )
        if branch.parent_id is None:
            return
        parent = await rows.branches.get(branch.project_id, branch.parent_id)
        if parent is None or parent.deleted_at is None:
            return
        if parent.recoverable_until is None or parent.recoverable_until <= clock.now():
            raise RuleBroken(f"The branch {branch.name!r} cannot be recovered: its parent {parent.name!r} is gone.")
        raise RuleBroken(
            f"The parent {parent.name!r} of the branch {branch.name!r} is deleted too. Recover its parent first: "
            f"POST /projects/{branch.project_id}/branches/{parent.id}/recover."
        )

    async def _elders(self, rows: Rows, branch: Branch) -> list[Wish]:
        """One that is not archived has no archived ancestors; one that is comes back when somebody uses it."""
        return [] if branch.state is BranchState.ARCHIVED else await ensure_unarchived(rows, branch)


def _check_recoverable(branch: Branch | None, now: datetime) -> None:
    if branch is None:
        raise NotFound.thing("branch")
    if branch.deleted_at is None:
        raise Invalid(f"The branch {branch.name!r} is not deleted, so there is nothing to recover.")
    if branch.recoverable_until is None or branch.recoverable_until <= now:
        raise RuleBroken(
            f"The branch {branch.name!r} was deleted at {branch.deleted_at.isoformat(timespec='seconds')}, and the "
            "time in which it could be recovered is over: its data is gone."
        )


def _alive(branch: Branch, now: datetime) -> Branch:
    """An end that has passed would take it away again at once."""
    back = replace(branch, deleted_at=None, deletion_method=None, recoverable_until=None, updated_at=now)
    if back.expires_at is not None and back.expires_at <= now:
        return replace(back, expires_at=None, ttl_seconds=None)
    return back


def _asleep(endpoint: Endpoint, now: datetime) -> Endpoint:
    back = replace(endpoint, deleted_at=None, updated_at=now)
    return moved(back, EndpointState.IDLE, now) if back.state is EndpointState.ACTIVE else back
