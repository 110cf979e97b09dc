"""Endpoints: create, update, delete, start, suspend, restart. `gateway/wakes.py` starts them on a connection."""

from collections.abc import Sequence
from dataclasses import replace

from bough import clock
from bough.access import lookup
from bough.config import Plan
from bough.control.context import Context
from bough.control.endpoints.plan import PG_SETTINGS, RequestedEndpoint, apply_endpoint_change, plan_endpoint
from bough.control.gateway.allowances import check_writable
from bough.domain.branch import Volume
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, request_state
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.rights import Right
from bough.errors import NotFound, PreconditionFailed, RuleViolation
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.action import ActionType, NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.start_compute import StartCompute, StartComputeParams
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.archival import plan_unarchive
from bough.store.store import Rows

_TARGET_STATE: dict[ActionType, EndpointState] = {
    StartCompute: EndpointState.ACTIVE,
    SuspendCompute: EndpointState.IDLE,
}


async def create_endpoint(
    context: Context, project: Project, branch_id: BranchId, kind: EndpointType, requested: RequestedEndpoint
) -> tuple[Endpoint, list[Operation]]:
    """Create the endpoint and start it, unless it is disabled."""
    context.check_can_create()
    endpoint_id = EndpointId.new()
    lock = LockScope(level=LockLevel.ENDPOINT, project_id=project.id, branch_id=branch_id, endpoint_id=endpoint_id)
    async with context.locked_transaction(lock) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        branch = await lookup.branch(rows, project, branch_id)
        plan = await context.load_project_plan(rows, project)
        await check_endpoint_quota(rows, project.id, plan, more=1)
        if kind is EndpointType.READ_WRITE and await rows.endpoints.get_read_write(branch_id):
            raise RuleViolation(
                "The branch already has a read_write endpoint, and can have only one. Create a read_only endpoint, "
                "or delete the existing one."
            )
        if kind is EndpointType.READ_ONLY:
            check_writable(branch, project, plan)
        endpoint = replace(plan_endpoint(project, branch, kind, requested, plan=plan, now=clock.now()), id=endpoint_id)
        [endpoint] = await hold_back(rows, [endpoint])
        await add_endpoint(rows, endpoint)
        context.audit.add_details(resource=endpoint.id)
        operations = await context.enqueue(rows, *await plan_unarchive(rows, branch), *plan_starts(endpoint))
        operations += await _reconfigure_replicas(context, rows, endpoint)
    await context.services.hostnames.publish(endpoint.id, project.region_id)
    return endpoint, operations


async def update_endpoint(
    context: Context, project: Project, endpoint_id: EndpointId, requested: RequestedEndpoint
) -> tuple[Endpoint, list[Operation]]:
    """Update the endpoint. Only disabling it, or a Postgres setting that needs a restart, closes connections.

    Pooler settings concern the gateways only: they are notified, and the compute does nothing.
    """
    async with context.services.store.read() as rows:
        current = await lookup.endpoint(rows, project, endpoint_id)
    async with context.locked_transaction(_endpoint_lock(current)) as rows:
        before = await lookup.endpoint(rows, project, endpoint_id)
        plan = await context.load_project_plan(rows, project)
        after = apply_endpoint_change(before, requested, project, plan=plan, now=clock.now())
        action = _required_action(before, after)
        if action is SuspendCompute:
            after = request_state(after, EndpointState.IDLE, clock.now())
        await rows.endpoints.save(after)
        operations = await context.enqueue(rows, *([NewOperation.for_endpoint(action, after)] if action else []))
        if _limits(before) != _limits(after):
            operations += await _reconfigure_replicas(context, rows, after)
    await context.invalidate_endpoints(endpoint_id)
    return after, operations


async def delete_endpoint(
    context: Context, project: Project, endpoint_id: EndpointId
) -> tuple[Endpoint, list[Operation]] | None:
    """Delete the endpoint and close its connections; the branch keeps its data. Returns None if already deleted."""
    async with context.services.store.read() as rows:
        current = await rows.endpoints.get_with_deleted(endpoint_id)
    if current is None or current.project_id != project.id:
        raise NotFound.resource("endpoint")
    if current.deleted_at is not None:
        return None
    async with context.locked_transaction(_endpoint_lock(current)) as rows:
        endpoint = await rows.endpoints.get(endpoint_id)
        if endpoint is None:
            context.audit.discard()
            return None
        deleted = replace(endpoint, deleted_at=clock.now(), pending_state=None, updated_at=clock.now())
        await rows.endpoints.save(deleted)
        operations = await context.enqueue(rows, NewOperation.for_endpoint(SuspendCompute, endpoint))
        operations += await _reconfigure_replicas(context, rows, endpoint)
    await context.invalidate_endpoints(endpoint_id)
    return deleted, operations


async def start_endpoint(
    context: Context, project: Project, endpoint_id: EndpointId
) -> tuple[Endpoint, list[Operation]]:
    """Start the endpoint. If it runs already, the operation does nothing."""
    return await _run_actions(context, project, endpoint_id, StartCompute)


async def suspend_endpoint(
    context: Context, project: Project, endpoint_id: EndpointId
) -> tuple[Endpoint, list[Operation]]:
    """Suspend the endpoint and close its connections. If it is idle already, the operation does nothing."""
    return await _run_actions(context, project, endpoint_id, SuspendCompute)


async def restart_endpoint(
    context: Context, project: Project, endpoint_id: EndpointId, *, retries_build: bool = False
) -> tuple[Endpoint, list[Operation]]:
    """Restart the endpoint with new processes. Its connections are closed. With `retries_build`, also with a Postgres
    build that did not start before.
    """
    params = StartComputeParams(retries_build=retries_build)
    return await _run_actions(context, project, endpoint_id, SuspendCompute, StartCompute, start_params=params)


async def _reconfigure_replicas(context: Context, rows: Rows, changed: Endpoint) -> list[Operation]:
    """Reconfigure the running read replicas of a changed primary, each with its own operation.

    Skips replicas with a conflicting operation; `tasks/repair_replicas.py` corrects them later if necessary.
    """
    if changed.type is not EndpointType.READ_WRITE:
        return []
    running = [each for each in await rows.endpoints.list_in_branch(changed.branch_id) if each.is_running_replica]
    operations: list[Operation] = []
    for operation in [NewOperation.for_endpoint(ApplyConfig, each) for each in running]:
        if await context.services.queue.find_conflict(rows, operation.lock) is None:
            operations += await context.enqueue(rows, operation)
    return operations


async def _run_actions(
    context: Context,
    project: Project,
    endpoint_id: EndpointId,
    *actions: ActionType,
    start_params: StartComputeParams | None = None,
) -> tuple[Endpoint, list[Operation]]:
    async with context.services.store.read() as rows:
        current = await lookup.endpoint(rows, project, endpoint_id)
    async with context.locked_transaction(_endpoint_lock(current)) as rows:
        endpoint = await lookup.endpoint(rows, project, endpoint_id)
        if endpoint.disabled and StartCompute in actions:
            raise PreconditionFailed(f"The endpoint {endpoint_id} is disabled. Enable it first.")
        if StartCompute in actions:
            await context.services.allowances.check_limits(rows, project.id, clock.now())
        after = request_state(endpoint, _TARGET_STATE[actions[0]], clock.now())
        await rows.endpoints.save(after)
        first: list[NewOperation] = []
        if StartCompute in actions:
            first = await plan_unarchive(rows, await lookup.branch(rows, project, endpoint.branch_id))
        params: dict[ActionType, StartComputeParams | None] = {StartCompute: start_params}
        new = [NewOperation.for_endpoint(action, endpoint, params=params.get(action)) for action in actions]
        operations = await context.enqueue(rows, *first, *new)
    return after, operations


async def check_endpoint_quota(rows: Rows, project_id: ProjectId, plan: Plan, *, more: int) -> None:
    if await rows.endpoints.count_in_project(project_id) + more > plan.endpoints:
        raise RuleViolation(
            f"The project has {plan.endpoints} endpoints, the limit of its plan. Delete one, or change the plan.",
            code="ENDPOINTS_LIMIT_EXCEEDED",
        )


async def add_endpoint(rows: Rows, endpoint: Endpoint) -> None:
    """Add the rows of the endpoint and of its volume; only read replicas have a volume of their own."""
    if endpoint.volume_id is not None:
        await rows.lineages.add_volume(
            Volume(id=endpoint.volume_id, project_id=endpoint.project_id, created_at=endpoint.created_at)
        )
    await rows.endpoints.add(endpoint)


def plan_starts(*endpoints: Endpoint) -> list[NewOperation]:
    """Return the operations that start new endpoints, except those that are disabled or held back."""
    is_starting = [each for each in endpoints if each.pending_state is EndpointState.ACTIVE]
    return [NewOperation.for_endpoint(StartCompute, endpoint) for endpoint in is_starting]


async def hold_back(rows: Rows, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return new endpoints of one project, which do not start while it has reached a limit of its computes."""
    if not endpoints or await rows.project_limits.get_reached(endpoints[0].project_id) is None:
        return list(endpoints)
    return [replace(each, pending_state=None) for each in endpoints]


def _required_action(before: Endpoint, after: Endpoint) -> ActionType | None:
    """Return the action that its compute needs after the change."""
    if after.disabled and not before.disabled:
        return SuspendCompute
    is_same = (before.min_cu, before.max_cu, before.settings.get(PG_SETTINGS)) == (
        after.min_cu,
        after.max_cu,
        after.settings.get(PG_SETTINGS),
    )
    return None if is_same or before.state is not EndpointState.ACTIVE else ApplyConfig


def _limits(endpoint: Endpoint) -> tuple[float, object]:
    """Return the values that must not be lower on its read replicas than on the primary."""
    return endpoint.max_cu, endpoint.settings.get(PG_SETTINGS)


def _endpoint_lock(endpoint: Endpoint) -> LockScope:
    return LockScope(
        level=LockLevel.ENDPOINT,
        project_id=endpoint.project_id,
        branch_id=endpoint.branch_id,
        endpoint_id=endpoint.id,
    )
