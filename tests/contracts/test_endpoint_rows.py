"""Endpoints that run, are in transition, or failed to start: the rows, in both back ends."""

from dataclasses import replace
from datetime import timedelta

from bough.domain.endpoint import Endpoint, EndpointState
from bough.domain.operation import OperationKind, OperationStatus
from bough.ids import EndpointId
from bough.store.store import Store
from support.stores import NOON, add_project, make_operation, make_project


async def add_endpoint(
    store: Store, state: EndpointState, pending: EndpointState | None = None, *, deleted: bool = False
) -> Endpoint:
    _branch, endpoint = await add_project(store, make_project(deleted_at=NOON if deleted else None))
    changed = replace(endpoint, state=state, pending_state=pending)
    async with store.transaction() as rows:
        await rows.endpoints.save(changed)
    return changed


async def add_ended_operation(
    store: Store, endpoint: Endpoint, minute: int, status: OperationStatus, action: str
) -> None:
    operation = make_operation(
        endpoint.project_id,
        branch_id=endpoint.branch_id,
        endpoint_id=endpoint.id,
        kind=OperationKind(action),
        status=status,
        created_at=NOON + timedelta(minutes=minute),
        ended_at=NOON,
    )
    async with store.transaction() as rows:
        await rows.operations.add(operation)


async def test_those_that_have_a_row_are_known(store: Store) -> None:
    endpoint = await add_endpoint(store, EndpointState.IDLE, deleted=True)
    async with store.read() as rows:
        assert await rows.endpoints.filter_existing([endpoint.id, EndpointId.new()]) == {endpoint.id}
        assert await rows.endpoints.filter_existing([]) == set()


async def test_they_are_counted_by_state_without_deleted_ones(store: Store) -> None:
    for state in (EndpointState.ACTIVE, EndpointState.IDLE, EndpointState.IDLE):
        await add_endpoint(store, state)
    await add_endpoint(store, EndpointState.ACTIVE, deleted=True)
    async with store.read() as rows:
        assert await rows.endpoints.count_by_state() == {EndpointState.ACTIVE: 1, EndpointState.IDLE: 2}


async def test_those_on_their_way_are_found(store: Store) -> None:
    await add_endpoint(store, EndpointState.IDLE)
    starting = await add_endpoint(store, EndpointState.IDLE, EndpointState.ACTIVE)
    await add_endpoint(store, EndpointState.IDLE, EndpointState.ACTIVE, deleted=True)
    async with store.read() as rows:
        assert await rows.endpoints.list_in_transition() == [starting]


async def test_one_whose_last_start_failed_is_found_until_it_starts_again(store: Store) -> None:
    failed = await add_endpoint(store, EndpointState.IDLE)
    healthy = await add_endpoint(store, EndpointState.IDLE)
    await add_ended_operation(store, failed, 1, OperationStatus.FINISHED, "start_compute")
    await add_ended_operation(store, failed, 2, OperationStatus.FAILED, "start_compute")
    await add_ended_operation(store, failed, 3, OperationStatus.FINISHED, "apply_config")
    await add_ended_operation(store, healthy, 1, OperationStatus.FAILED, "suspend_compute")
    async with store.read() as rows:
        assert await rows.endpoints.list_failed() == [failed]
    await add_ended_operation(store, failed, 4, OperationStatus.FAILED, "start_compute")
    async with store.read() as rows:
        assert await rows.endpoints.list_failed() == [failed]
    await add_ended_operation(store, failed, 5, OperationStatus.FINISHED, "start_compute")
    async with store.read() as rows:
        assert await rows.endpoints.list_failed() == []
