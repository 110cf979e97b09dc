"""Usage, gateway workers, urgent operations and applied roles: the rows, in both back ends."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from bough.domain.branch import Volume
from bough.domain.endpoint import Endpoint, EndpointState
from bough.domain.operation import Lane, Operation, OperationStatus
from bough.domain.role import Role
from bough.domain.usage import EndpointTraffic, EndpointUsage
from bough.ids import BranchId, EndpointId
from bough.store.store import Store
from support.stores import NOON, add_project, make_branch, make_endpoint, make_operation, make_project

MINUTE = timedelta(minutes=1)


def make_role(branch_id: BranchId, name: str = "app", verifier: str | None = "v") -> Role:
    return Role(
        branch_id=branch_id,
        name=name,
        verifier=verifier,
        sealed_password="sealed",
        is_protected=False,
        created_at=NOON,
        updated_at=NOON,
        valid_until=NOON + MINUTE,
        is_pending=True,
    )


async def test_a_role_is_kept_changed_and_removed(store: Store) -> None:
    branch, endpoint = await add_project(store, make_project())
    first, second = make_role(branch.id), make_role(branch.id, "b", verifier=None)
    async with store.transaction() as rows:
        await rows.roles.add(first)
        await rows.roles.add(second)
    changed = replace(first, verifier=None, valid_until=None, sealed_password=None, is_pending=False)
    async with store.transaction() as rows:
        await rows.roles.save(changed)
        await rows.roles.remove(branch.id, second.name)
    async with store.read() as rows:
        assert await rows.roles.list_in_branch(branch.id) == [changed]
        assert await rows.roles.get(branch.id, "app") == changed
        access = await rows.roles.get_endpoint_access(endpoint.id, "app")
    assert access is not None
    assert (access.verifier, access.branch_is_protected) == (None, False)


async def test_the_door_is_told_how_the_endpoint_pools(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    changed = replace(
        endpoint, max_cu=0.5, pooler_enabled=True, settings={"pgbouncer_settings": {"default_pool_size": "5"}}
    )
    for each in (endpoint, changed):
        async with store.transaction() as rows:
            await rows.endpoints.save(each)
        async with store.read() as rows:
            access = await rows.roles.get_endpoint_access(endpoint.id, "nobody")
        assert access is not None
        assert access.verifier is None
        assert (access.endpoint_settings, access.max_cu, access.pooler_enabled) == (
            each.settings,
            each.max_cu,
            each.pooler_enabled,
        )


async def test_every_endpoint_has_usage_that_only_grows(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    moved = EndpointTraffic(endpoint_id=endpoint.id, bytes_in=2**40, bytes_out=2**41, connections_opened=3)
    async with store.transaction() as rows:
        await rows.usage.add_traffic(moved)
        await rows.usage.add_traffic(moved)
        await rows.usage.add_traffic(replace(moved, endpoint_id=EndpointId.new()))
    async with store.read() as rows:
        assert await rows.usage.get(endpoint.id) == EndpointUsage(
            endpoint_id=endpoint.id,
            project_id=endpoint.project_id,
            bytes_in=2**41,
            bytes_out=2**42,
            connections_opened=6,
            is_uncounted=True,
        )
        seen = await rows.project_pages.get(endpoint.project_id)
    assert seen is not None
    assert (seen.usage.bytes_out, seen.usage.active_seconds) == (2**42, 0)


async def test_time_is_counted_from_the_start_to_the_stop(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    async with store.transaction() as rows:
        assert await rows.usage.list_metered() == []
        await rows.usage.stop_metering(endpoint, NOON)
        await rows.usage.start_metering(endpoint.id, NOON)
        (counted,) = await rows.usage.list_metered()
        assert (counted.endpoint_id, counted.counted_at, counted.max_cu) == (endpoint.id, NOON, 2.0)
        await rows.usage.add_running_time([counted], NOON + MINUTE, running={endpoint.id}, sizes={})
        (counted,) = await rows.usage.list_metered()
        await rows.usage.add_running_time([counted], NOON + 2 * MINUTE, running=set(), sizes={})
        await rows.usage.stop_metering(endpoint, NOON + 2.5 * MINUTE)
        assert await rows.usage.list_metered() == []
        found = await rows.usage.get(endpoint.id)
    assert found is not None
    assert (found.active_seconds, found.compute_seconds, found.counted_at) == (90, 180, None)


async def read_cpu_seconds(store: Store, endpoint: Endpoint) -> tuple[float, float]:
    """Returns the CPU time of all runs and of the last run."""
    async with store.read() as rows:
        found = await rows.usage.get(endpoint.id)
    assert found is not None
    return found.cpu_seconds, found.cpu_run_seconds


async def test_of_one_run_only_what_is_new_is_added(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    _, other = await add_project(store, make_project(1))
    for seconds in (2.5, 2.5, 4.0):
        async with store.transaction() as rows:
            assert await rows.usage.add_cpu(endpoint.id, NOON, seconds)
    assert await read_cpu_seconds(store, endpoint) == (4.0, 4.0)
    assert await read_cpu_seconds(store, other) == (0.0, 0.0)
    async with store.transaction() as rows:
        assert not await rows.usage.add_cpu(EndpointId.new(), NOON, 1.0)


async def test_another_run_adds_all_that_it_took(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    async with store.transaction() as rows:
        await rows.usage.add_cpu(endpoint.id, NOON, 4.0)
        await rows.usage.add_cpu(endpoint.id, NOON + timedelta(microseconds=1), 1.5)
        await rows.usage.add_cpu(endpoint.id, NOON + timedelta(microseconds=1), 2.0)
    assert await read_cpu_seconds(store, endpoint) == (6.0, 2.0)
    async with store.transaction() as rows:  # the clock was set back
        await rows.usage.add_cpu(endpoint.id, NOON - MINUTE, 0.5)
    assert await read_cpu_seconds(store, endpoint) == (6.5, 0.5)


async def test_an_earlier_measure_of_a_run_changes_nothing(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    async with store.transaction() as rows:
        assert await rows.usage.add_cpu(endpoint.id, NOON, 4.0)
        assert not await rows.usage.add_cpu(endpoint.id, NOON, 3.0)
    assert await read_cpu_seconds(store, endpoint) == (4.0, 4.0)
    async with store.transaction() as rows:
        assert await rows.usage.add_cpu(endpoint.id, NOON, 4.5)
    assert await read_cpu_seconds(store, endpoint) == (4.5, 4.5)


async def test_what_was_written_is_how_far_the_wal_came(store: Store) -> None:
    branch, _ = await add_project(store, make_project())
    written = []
    for position in (2**40, 2**40 + 5, 2**40 + 5, 7, 10):  # the fourth is lower, as after a restore
        async with store.transaction() as rows:
            await rows.branches.record_wal_position(branch.id, position)
        async with store.read() as rows:
            found = await rows.branches.get(branch.project_id, branch.id)
        assert found is not None
        assert found.wal_position == position
        written.append(found.written_bytes)
    assert written == [0, 5, 5, 5, 8]


async def test_a_branch_that_begins_with_its_parents_wal_has_written_what_follows(store: Store) -> None:
    branch, _ = await add_project(store, make_project(), wal_position=2**41)
    async with store.transaction() as rows:
        await rows.branches.record_wal_position(branch.id, 2**41 + 2**40)
        found = await rows.branches.get(branch.project_id, branch.id)
    assert found is not None
    assert found.written_bytes == 2**40


async def test_a_project_has_used_what_all_its_branches_did(store: Store) -> None:
    project = make_project()
    _, endpoint = await add_project(store, project, wal_position=0)
    deleted = make_branch(project, name="gone", is_default=False, wal_position=0, deleted_at=NOON)
    other = make_endpoint(deleted, deleted_at=NOON)
    async with store.transaction() as rows:
        await rows.lineages.add_volume(Volume(id=deleted.volume_id, project_id=project.id, created_at=NOON))
        await rows.branches.add(deleted)
        await rows.endpoints.add(other)
        await rows.usage.add_written(endpoint.id, 2**40)
        await rows.usage.add_written(other.id, 2**41)
        await rows.usage.add_cpu(endpoint.id, NOON, 1.75)
        await rows.usage.add_cpu(other.id, NOON, 2.5)
        seen = await rows.project_pages.get(project.id)
        page = await rows.project_pages.page({project.org_id: None}, search="", limit=10, after=None)
    assert seen is not None
    assert (seen.usage.cpu_seconds, seen.usage.written_bytes) == (4, 2**40 + 2**41)
    assert [each.usage.cpu_seconds for each in page.rows] == [4]


async def test_usage_goes_with_its_branch(store: Store) -> None:
    branch, endpoint = await add_project(store, make_project())
    async with store.transaction() as rows:
        await rows.branches.delete(branch.id)
        assert await rows.usage.get(endpoint.id) is None


async def test_a_number_of_a_worker_is_new_once(store: Store) -> None:
    async with store.transaction() as rows:
        workers = rows.gateway_workers
        assert [await workers.record_report("w", number, NOON) for number in (5, 5, 4, 6, 6)] == [
            True,
            False,
            False,
            True,
            False,
        ]
        assert await workers.record_report("other", 1, NOON + MINUTE)
        assert await workers.delete_before(NOON + MINUTE) == 1
        assert await workers.record_report("w", 1, NOON)


async def test_urgent_work_comes_first_and_can_be_asked_for_alone(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    first = running(endpoint.project_id, 0)
    second = replace(running(endpoint.project_id, 1), is_urgent=True)
    async with store.transaction() as rows:
        await rows.operations.add(first)
        assert await rows.operations.get_next_due(NOON + MINUTE, lane=Lane.URGENT) is None
        assert await rows.operations.get_next_due_time(lane=Lane.URGENT) is None
        await rows.operations.add(second)
        later = NOON + 5 * MINUTE
        assert await rows.operations.get_next_due(later) == second
        assert await rows.operations.get_next_due(later, lane=Lane.URGENT) == second
        assert await rows.operations.get_next_due(later, lane=Lane.REGULAR) == first
        assert await rows.operations.get_next_due_time(lane=Lane.URGENT) == second.due_at
        assert await rows.operations.get_next_due_time(lane=Lane.REGULAR) == first.due_at
        await rows.operations.mark_urgent(first.id)
        assert await rows.operations.get_next_due(later, lane=Lane.REGULAR) is None


async def test_those_that_were_quiet_for_long(store: Store) -> None:
    quiet = [(await add_project(store, make_project(minute)))[1] for minute in range(5)]
    fields: list[dict[str, Any]] = [
        {},
        {"pending_state": EndpointState.IDLE},
        {"suspend_timeout_seconds": -1},
        {"last_active": NOON + MINUTE},
        {"state": EndpointState.IDLE},
    ]
    async with store.transaction() as rows:
        for endpoint, change in zip(quiet, fields, strict=True):
            whole: dict[str, Any] = {
                "state": EndpointState.ACTIVE,
                "pending_state": None,
                "last_active": NOON,
                **change,
            }
            await rows.endpoints.save(replace(endpoint, **whole))
        assert [each.id for each in await rows.endpoints.list_idle_since(NOON, NOON)] == [quiet[0].id]
        assert await rows.endpoints.list_idle_since(NOON - MINUTE, NOON) == []
        assert await rows.endpoints.list_active_ids() == {each.id for each in quiet[:4]}
        await rows.endpoints.record_activity(quiet[0].id, NOON + MINUTE)
        assert await rows.endpoints.list_idle_since(NOON, NOON) == []
        own = replace(quiet[0], state=EndpointState.ACTIVE, pending_state=None, last_active=NOON)
        await rows.endpoints.save(replace(own, suspend_timeout_seconds=60))
        assert len(await rows.endpoints.list_idle_since(NOON - MINUTE, NOON)) == 1
        assert await rows.endpoints.list_idle_since(NOON, NOON - MINUTE) == []


async def test_one_of_a_deleted_project_does_not_live(store: Store) -> None:
    _, living = await add_project(store, make_project())
    _, dead = await add_project(store, make_project(deleted_at=NOON))
    async with store.read() as rows:
        assert (await rows.endpoints.get_live(living.id)) == living
        assert await rows.endpoints.get_live(dead.id) is None
        assert await rows.roles.get_endpoint_access(dead.id, "x") is None


async def test_slow_reads_see_what_others_see(store: Store) -> None:
    _, endpoint = await add_project(store, make_project())
    async with store.read(slow=True) as rows:
        assert await rows.endpoints.get(endpoint.id) == endpoint
        assert await rows.projects.count() == 1
        assert [each.id for each in await rows.endpoints.list_in_project(endpoint.project_id)] == [endpoint.id]


async def test_two_may_lead_different_things(store: Store) -> None:
    async with store.try_leader_lock("one") as first, store.try_leader_lock("other") as second:
        assert (first, second) == (True, True)
        if store.is_shared:
            async with store.try_leader_lock("one") as third:
                assert not third


def running(project_id: str, minute: int) -> Operation:
    timestamp = NOON + minute * MINUTE
    return make_operation(project_id, status=OperationStatus.RUNNING, due_at=timestamp, created_at=timestamp)
