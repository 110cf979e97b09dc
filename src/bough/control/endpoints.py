"""Endpoints: create, change, delete, start, suspend, restart. Waking one because somebody connects is in `wakes`."""

from dataclasses import replace

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control.allowances import Allowances, check_takes_changes
from bough.control.archiving import ensure_unarchived
from bough.control.desk import Desk
from bough.control.endpoint_planning import PG_SETTINGS, EndpointWish, changed, planned
from bough.domain.branch import Volume
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, wishing
from bough.domain.operation import Operation, OperationAction, Reach, Touch
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import NotFound, PreconditionFailed, RuleBroken
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import Wish
from bough.operations.queue import obstacle_to
from bough.store.store import Rows

_TOWARDS = {
    OperationAction.START_COMPUTE: EndpointState.ACTIVE,
    OperationAction.SUSPEND_COMPUTE: EndpointState.IDLE,
}


class Endpoints:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(
        self, held: Project, branch_id: BranchId, kind: EndpointType, wish: EndpointWish
    ) -> tuple[Endpoint, list[Operation]]:
        """It starts at once, unless it is disabled."""
        self._desk.check_makes_new()
        endpoint_id = EndpointId.new()
        touch = Touch(reach=Reach.ENDPOINT, project_id=held.id, branch_id=branch_id, endpoint_id=endpoint_id)
        async with self._desk.turn(touch) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            branch = await lookup.branch(rows, project, branch_id)
            plan = await self._desk.plan_for(rows, project)
            await check_room(rows, project.id, plan, more=1)
            if kind is EndpointType.READ_WRITE and await rows.endpoints.read_write(branch_id):
                raise RuleBroken(
                    "The branch has a read_write endpoint already, and can have no other. Make a read_only one, "
                    "or delete the one that is there."
                )
            if kind is EndpointType.READ_ONLY:
                check_takes_changes(branch, plan)
            endpoint = replace(planned(project, branch, kind, wish, plan=plan, now=clock.now()), id=endpoint_id)
            await add(rows, endpoint)
            self._desk.record.about(thing=endpoint.id)
            operations = await self._desk.enqueue(rows, *await ensure_unarchived(rows, branch), *starts(endpoint))
            operations += await self._tell_replicas(rows, endpoint)
        await self._desk.names.announce(endpoint.id, project.region_id)
        return endpoint, operations

    async def change(
        self, project: Project, endpoint_id: EndpointId, wish: EndpointWish
    ) -> tuple[Endpoint, list[Operation]]:
        """Nobody is cut off, but by disabling and by a Postgres setting that needs a restart.

        How it pools is the gateway's matter alone: gateways hear of it, and its compute has nothing to do.
        """
        async with self._desk.store.read() as rows:
            held = await lookup.endpoint(rows, project, endpoint_id)
        async with self._desk.turn(_touch(held)) as rows:
            before = await lookup.endpoint(rows, project, endpoint_id)
            plan = await self._desk.plan_for(rows, project)
            after = changed(before, wish, project, plan=plan, now=clock.now())
            work = _work_of(before, after)
            if work is OperationAction.SUSPEND_COMPUTE:
                after = wishing(after, EndpointState.IDLE, clock.now())
            await rows.endpoints.save(after)
            operations = await self._desk.enqueue(rows, *([_wish(work, after)] if work else []))
            if _limits(before) != _limits(after):
                operations += await self._tell_replicas(rows, after)
        await self._desk.changed(endpoint_id)
        return after, operations

    async def delete(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]] | None:
        """Whoever is connected is cut off; the branch keeps its data. None: it is gone already, and nobody waits."""
        async with self._desk.store.read() as rows:
            held = await rows.endpoints.also_deleted(endpoint_id)
        if held is None or held.project_id != project.id:
            raise NotFound.thing("endpoint")
        if held.deleted_at is not None:
            return None
        async with self._desk.turn(_touch(held)) as rows:
            endpoint = await rows.endpoints.get(endpoint_id)
            if endpoint is None:
                self._desk.record.withdraw()
                return None
            deleted = replace(endpoint, deleted_at=clock.now(), pending_state=None, updated_at=clock.now())
            await rows.endpoints.save(deleted)
            operations = await self._desk.enqueue(rows, _wish(OperationAction.SUSPEND_COMPUTE, endpoint))
            operations += await self._tell_replicas(rows, endpoint)
        await self._desk.changed(endpoint_id)
        return deleted, operations

    async def start(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """One that runs is left alone: its operation has nothing to do."""
        return await self._work(project, endpoint_id, OperationAction.START_COMPUTE)

    async def suspend(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """Whoever is connected is cut off. One that sleeps goes on sleeping."""
        return await self._work(project, endpoint_id, OperationAction.SUSPEND_COMPUTE)

    async def restart(self, project: Project, endpoint_id: EndpointId) -> tuple[Endpoint, list[Operation]]:
        """Whoever is connected is cut off; it comes back with fresh processes."""
        return await self._work(project, endpoint_id, OperationAction.SUSPEND_COMPUTE, OperationAction.START_COMPUTE)

    async def _tell_replicas(self, rows: Rows, changed: Endpoint) -> list[Operation]:
        """Those that run hear of a change to the endpoint that they follow, each by itself.

        One that is being worked on is passed over: `tasks/keep_replicas.py` finds it, should it have missed something.
        """
        if changed.type is not EndpointType.READ_WRITE:
            return []
        running = [each for each in await rows.endpoints.of_branch(changed.branch_id) if each.is_running_replica]
        wishes = [_wish(OperationAction.APPLY_CONFIG, each) for each in running]
        told = [await self._desk.enqueue(rows, wish) for wish in wishes if await obstacle_to(rows, wish.touch) is None]
        return [operation for each in told for operation in each]

    async def _work(
        self, project: Project, endpoint_id: EndpointId, *actions: OperationAction
    ) -> tuple[Endpoint, list[Operation]]:
        async with self._desk.store.read() as rows:
            held = await lookup.endpoint(rows, project, endpoint_id)
        async with self._desk.turn(_touch(held)) as rows:
            endpoint = await lookup.endpoint(rows, project, endpoint_id)
            if endpoint.disabled and OperationAction.START_COMPUTE in actions:
                raise PreconditionFailed(f"The endpoint {endpoint_id} is disabled. Enable it first.")
            if OperationAction.START_COMPUTE in actions:
                allowances = Allowances(self._desk.settings, self._desk.vault)
                await allowances.check_transfers(rows, project.id, clock.now())
            after = wishing(endpoint, _TOWARDS[actions[0]], clock.now())
            await rows.endpoints.save(after)
            first: list[Wish] = []
            if OperationAction.START_COMPUTE in actions:
                first = await ensure_unarchived(rows, await lookup.branch(rows, project, endpoint.branch_id))
            operations = await self._desk.enqueue(rows, *first, *(_wish(action, endpoint) for action in actions))
        return after, operations


async def check_room(rows: Rows, project_id: ProjectId, plan: Plan, *, more: int) -> None:
    if await rows.endpoints.count_in(project_id) + more > plan.endpoints:
        raise RuleBroken(
            f"The project has {plan.endpoints} endpoints, all that its plan allows. Delete one, or change the plan.",
            code="ENDPOINTS_LIMIT_EXCEEDED",
        )


async def add(rows: Rows, endpoint: Endpoint) -> None:
    """With the volume of its own that a read replica has."""
    if endpoint.volume_id is not None:
        await rows.lineages.add_volume(
            Volume(id=endpoint.volume_id, project_id=endpoint.project_id, created_at=endpoint.created_at)
        )
    await rows.endpoints.add(endpoint)


def starts(*endpoints: Endpoint) -> list[Wish]:
    """The work that makes new endpoints accept connections."""
    return [_wish(OperationAction.START_COMPUTE, endpoint) for endpoint in endpoints if not endpoint.disabled]


def _work_of(before: Endpoint, after: Endpoint) -> OperationAction | None:
    """What its compute has to do about a change."""
    if after.disabled and not before.disabled:
        return OperationAction.SUSPEND_COMPUTE
    is_same = (before.min_cu, before.max_cu, before.settings.get(PG_SETTINGS)) == (
        after.min_cu,
        after.max_cu,
        after.settings.get(PG_SETTINGS),
    )
    return None if is_same or before.state is not EndpointState.ACTIVE else OperationAction.APPLY_CONFIG


def _limits(endpoint: Endpoint) -> tuple[float, object]:
    """What those that follow it must not be below."""
    return endpoint.max_cu, endpoint.settings.get(PG_SETTINGS)


def _wish(action: OperationAction, endpoint: Endpoint) -> Wish:
    return Wish(action, endpoint.project_id, endpoint.branch_id, endpoint.id)


def _touch(held: Endpoint) -> Touch:
    return Touch(reach=Reach.ENDPOINT, project_id=held.project_id, branch_id=held.branch_id, endpoint_id=held.id)
