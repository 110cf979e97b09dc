"""The rows of the operation queue in both back ends: leases, fences, order."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from bough.domain.operation import Operation, OperationStatus
from bough.domain.project import Project
from bough.ids import BranchId, OperationId
from bough.store.operations import LostLease
from bough.store.store import Store
from support.stores import NOON, add_project, make_operation, make_project

LATER = NOON + timedelta(seconds=30)


async def _add_operation(store: Store, *operations: Operation) -> None:
    async with store.transaction() as rows:
        for operation in operations:
            await rows.operations.add(operation)


@pytest.fixture
async def project(store: Store) -> Project:
    created = make_project()
    await add_project(store, created)
    return created


async def test_an_operation_is_read_back_whole(store: Store, project: Project) -> None:
    operation = make_operation(project.id)
    await _add_operation(store, operation)
    async with store.read() as rows:
        assert await rows.operations.get(operation.id) == operation
        assert await rows.operations.list_open(project.id) == [operation]


async def test_only_what_is_due_unheld_and_unblocked_is_next(store: Store, project: Project) -> None:
    first = make_operation(project.id)
    behind = make_operation(project.id, after=first.id, due_at=NOON - timedelta(hours=1))
    future = make_operation(project.id, due_at=LATER)
    leased = make_operation(project.id, lease_until=LATER, due_at=NOON - timedelta(hours=1))
    await _add_operation(store, first, behind, future, leased)
    async with store.read() as rows:
        found = await rows.operations.get_next_due(NOON)
    assert found is not None
    assert found.id == first.id
    async with store.transaction() as rows:
        await rows.operations.save(replace(first, status=OperationStatus.FINISHED, ended_at=NOON))
    async with store.read() as rows:
        found = await rows.operations.get_next_due(NOON)
    assert found is not None
    assert found.id == behind.id


async def test_a_lapsed_lease_is_taken_over_and_the_old_holder_can_write_no_more(
    store: Store, project: Project
) -> None:
    await _add_operation(store, make_operation(project.id))
    holders: list[Operation] = []
    for timestamp in (NOON, LATER + timedelta(seconds=1)):
        async with store.transaction() as rows:
            found = await rows.operations.get_next_due(timestamp)
            assert found is not None
            await rows.operations.lease(found, timestamp + timedelta(seconds=30), timestamp)
            again = await rows.operations.get(found.id)
            assert again is not None
            holders.append(again)
    old, new = holders
    assert (old.fence, new.fence) == (1, 2)
    assert new.status is OperationStatus.RUNNING
    with pytest.raises(LostLease):
        async with store.transaction() as rows:
            await rows.operations.save(replace(old, error="from the dead"))
    with pytest.raises(LostLease):
        async with store.transaction() as rows:
            await rows.operations.check_lease(old.id, old.fence)
    async with store.transaction() as rows:
        assert not await rows.operations.renew_lease(old.id, old.fence, LATER)
        assert await rows.operations.renew_lease(new.id, new.fence, LATER)
        await rows.operations.check_lease(new.id, new.fence)


async def test_an_operation_that_ended_is_written_no_more(store: Store, project: Project) -> None:
    operation = make_operation(project.id)
    await _add_operation(store, operation)
    ended = replace(operation, status=OperationStatus.FINISHED, ended_at=NOON)
    async with store.transaction() as rows:
        await rows.operations.save(ended)
    with pytest.raises(LostLease):
        async with store.transaction() as rows:
            await rows.operations.save(operation)
    async with store.read() as rows:
        assert await rows.operations.get(operation.id) == ended


async def test_two_runners_never_take_the_same_operation(store: Store, project: Project) -> None:
    await _add_operation(store, *(make_operation(project.id) for _ in range(10)))

    async def lease_all() -> list[OperationId]:
        leased_ids: list[OperationId] = []
        for _ in range(20):
            async with store.transaction() as rows:
                found = await rows.operations.get_next_due(NOON)
                if found is not None:
                    await rows.operations.lease(found, LATER, NOON)
                    leased_ids.append(found.id)
            await asyncio.sleep(0)
        return leased_ids

    leased_ids = await asyncio.gather(*(lease_all() for _ in range(3)))
    everything = [operation_id for part in leased_ids for operation_id in part]
    assert len(everything) == len(set(everything)) == 10


async def test_work_on_an_endpoint_is_known(store: Store) -> None:
    project, other = make_project(1), make_project(2)
    branch, endpoint = await add_project(store, project)
    another_branch, another = await add_project(store, other)
    await _add_operation(store, make_operation(project.id, branch_id=branch.id, endpoint_id=endpoint.id))
    await _add_operation(store, make_operation(other.id, branch_id=BranchId.new(), endpoint_id=None))
    async with store.read() as rows:
        assert await rows.operations.list_busy_endpoint_ids() == {endpoint.id}, (
            "work on another branch is none of theirs"
        )
        assert await rows.operations.count_open() == 2
    await _add_operation(store, make_operation(other.id, branch_id=another_branch.id, endpoint_id=None))
    async with store.read() as rows:
        assert await rows.operations.list_busy_endpoint_ids() == {endpoint.id, another.id}
