"""Usage of computes: CPU time and WAL, measured while they run, across restarts, and before they stop."""

from dataclasses import replace
from typing import Any

import pytest

from bough import clock
from bough.control.platform.measurements import ComputeMeasurements
from bough.control.platform.shutdown import stop_all_computes
from bough.domain.branch import Branch
from bough.domain.usage import EndpointUsage
from bough.engine.port import EngineError
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations import usage_measurement
from bough.operations.action import NewOperation
from bough.operations.actions.delete_branch import DeleteBranch
from bough.tasks.measure_branches import MeasureBranches
from support.platform import API, Platform

BURN = "select count(*) from generate_series(1, 3000000)"
WRITE = "create table {} as select repeat('x', 1000) from generate_series(1, 3000)"
MIN_WRITTEN_BYTES = 3_000_000  # minimum in bytes


async def measure(platform: Platform) -> None:
    await MeasureBranches(
        platform.store, platform.engine, platform.services.compute_measurements, platform.services.activity
    ).run()


async def use_compute(platform: Platform, created: dict[str, Any], table: str) -> None:
    await platform.query(created, BURN)
    await platform.query(created, WRITE.format(table))


async def read_usage(platform: Platform, created: dict[str, Any]) -> tuple[EndpointUsage, Branch]:
    async with platform.store.read() as rows:
        usage = await rows.usage.get(EndpointId(created["endpoints"][0]["id"]))
        branch = await rows.branches.get(ProjectId(created["project"]["id"]), BranchId(created["branch"]["id"]))
    assert usage is not None
    assert branch is not None
    return usage, branch


async def post_action(platform: Platform, created: dict[str, Any], action: str) -> None:
    endpoint = created["endpoints"][0]
    path = f"{API}/projects/{endpoint['project_id']}/endpoints/{endpoint['id']}/{action}"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()


async def test_what_a_branch_used_is_measured_while_it_runs(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await measure(platform)
    first, before = await read_usage(platform, created)
    assert before.logical_size is not None
    await use_compute(platform, created, "one")
    await measure(platform)
    second, after = await read_usage(platform, created)
    assert second.cpu_seconds > first.cpu_seconds
    assert second.cpu_seconds == pytest.approx(second.cpu_run_seconds)
    assert after.written_bytes > before.written_bytes + MIN_WRITTEN_BYTES
    assert after.logical_size is not None
    assert after.logical_size > before.logical_size + MIN_WRITTEN_BYTES


async def test_another_measure_adds_only_the_difference(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await measure(platform)
    _, before = await read_usage(platform, created)
    await use_compute(platform, created, "one")
    for _ in range(3):
        await measure(platform)
    usage, after = await read_usage(platform, created)
    assert usage.cpu_seconds == pytest.approx(usage.cpu_run_seconds)
    assert before.wal_position is not None
    assert after.wal_position is not None
    assert after.written_bytes - before.written_bytes == after.wal_position - before.wal_position


async def test_what_is_known_already_is_no_news(platform: Platform) -> None:
    created = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(created)
    usage = await usage_measurement.measure_usage(platform.engine, endpoint)
    assert usage is not None
    assert usage.wal_position is not None
    async with platform.store.transaction() as rows:
        assert await usage_measurement.has_new_usage(rows, endpoint, usage)
        await usage_measurement.record_usage(rows, endpoint, usage)
        assert not await usage_measurement.has_new_usage(rows, endpoint, usage)
        assert not await usage_measurement.has_new_usage(rows, endpoint, replace(usage, memory_bytes=1))
        for change in (
            {"cpu_seconds": usage.cpu_seconds + 1},
            {"wal_position": usage.wal_position + 1},
            {"logical_bytes": usage.logical_bytes + 1},
        ):
            assert await usage_measurement.has_new_usage(rows, endpoint, replace(usage, **change))


async def test_a_measure_that_comes_late_changes_nothing(platform: Platform) -> None:
    created = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(created)
    early = await usage_measurement.measure_usage(platform.engine, endpoint)
    await use_compute(platform, created, "one")
    await measure(platform)
    before = await read_usage(platform, created)
    assert early is not None
    async with platform.store.transaction() as rows:
        await usage_measurement.record_usage(rows, endpoint, early)
    assert await read_usage(platform, created) == before


async def test_a_measure_of_what_a_branch_was_before_a_restore_tells_nothing_of_it(platform: Platform) -> None:
    created = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(created)
    await use_compute(platform, created, "one")
    late = await usage_measurement.measure_usage(platform.engine, endpoint)
    assert late is not None
    async with platform.store.transaction() as rows:
        [past] = await rows.lineages.list_ranges(endpoint.branch_id)
        restored = replace(past.branch_lineage, from_at=clock.now())
        await rows.lineages.replace_branch_lineages(endpoint.branch_id, [past.branch_lineage, restored])
    _, before = await read_usage(platform, created)
    async with platform.store.transaction() as rows:
        await usage_measurement.record_usage(rows, endpoint, late)
    usage, after = await read_usage(platform, created)
    assert after == before
    assert usage.cpu_seconds == pytest.approx(late.cpu_seconds)


async def test_a_read_replica_tells_nothing_of_its_branch(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await measure(platform)
    first, before = await read_usage(platform, created)
    endpoint = await platform.get_endpoint(created)
    usage = await usage_measurement.measure_usage(platform.engine, endpoint)
    assert usage is not None
    behind = replace(usage, cpu_seconds=usage.cpu_seconds + 5, wal_position=None, logical_bytes=1)
    async with platform.store.transaction() as rows:
        assert await usage_measurement.has_new_usage(rows, endpoint, behind)
        await usage_measurement.record_usage(rows, endpoint, behind)
        assert not await usage_measurement.has_new_usage(rows, endpoint, behind)
    second, after = await read_usage(platform, created)
    assert second.cpu_seconds >= first.cpu_seconds + 5
    assert after == before


async def test_the_last_of_a_run_is_measured_before_it_stops_and_another_run_adds_to_it(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await measure(platform)
    first, before = await read_usage(platform, created)
    await use_compute(platform, created, "one")
    await post_action(platform, created, "suspend")
    asleep, written = await read_usage(platform, created)
    assert asleep.cpu_seconds > first.cpu_seconds
    assert written.written_bytes > before.written_bytes + MIN_WRITTEN_BYTES

    await measure(platform)
    assert await read_usage(platform, created) == (asleep, written)
    await post_action(platform, created, "start")
    await use_compute(platform, created, "two")
    await measure(platform)
    again, more = await read_usage(platform, created)
    assert again.cpu_run != asleep.cpu_run
    assert again.cpu_run_seconds > 0
    assert again.cpu_seconds == pytest.approx(asleep.cpu_seconds + again.cpu_run_seconds)
    assert more.written_bytes > written.written_bytes + MIN_WRITTEN_BYTES


async def test_all_that_rest_are_measured_before(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await measure(platform)
    first, before = await read_usage(platform, created)
    await use_compute(platform, created, "one")
    await stop_all_computes(platform.store, platform.engine)
    asleep, after = await read_usage(platform, created)
    assert asleep.cpu_seconds > first.cpu_seconds
    assert after.written_bytes > before.written_bytes + MIN_WRITTEN_BYTES


async def test_a_branch_that_is_deleted_leaves_what_it_used(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await measure(platform)
    first, before = await read_usage(platform, created)
    await use_compute(platform, created, "one")
    project_id, branch_id = ProjectId(created["project"]["id"]), BranchId(created["branch"]["id"])
    operation = NewOperation(DeleteBranch, project_id, branch_id)
    async with platform.services.queue.locked_transaction(operation.lock) as rows:
        await platform.services.queue.enqueue(rows, [operation], "test")
    await platform.run_operations()
    deleted, after = await read_usage(platform, created)
    assert not (await platform.engine.observe()).running_endpoints
    assert deleted.cpu_seconds > first.cpu_seconds
    assert after.written_bytes > before.written_bytes + MIN_WRITTEN_BYTES
    project = (await platform.client.get(f"{API}/projects/{project_id}")).json()["project"]
    assert (project["cpu_used_sec"], project["written_data_bytes"]) == (round(deleted.cpu_seconds), after.written_bytes)


async def test_one_that_cannot_be_asked_keeps_nobody_from_going_on(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, other = await platform.create_ready_project(), await platform.create_ready_project()
    measure_usage = platform.engine.measure_usage

    async def measure_or_fail(endpoint_id: EndpointId) -> Any:
        if endpoint_id == silent["endpoints"][0]["id"]:
            raise EngineError("The compute did not take our statements.")
        return await measure_usage(endpoint_id)

    for each in (silent, other):
        await platform.query(each, BURN)
    monkeypatch.setattr(platform.engine, "measure_usage", measure_or_fail)
    measurements = ComputeMeasurements()
    await MeasureBranches(platform.store, platform.engine, measurements, platform.services.activity).run()
    assert measurements.get(EndpointId(silent["endpoints"][0]["id"])) is None
    assert measurements.get(EndpointId(other["endpoints"][0]["id"])) is not None
    assert (await read_usage(platform, silent))[0].cpu_seconds == 0
    assert (await read_usage(platform, other))[0].cpu_seconds > 0
    await post_action(platform, silent, "suspend")
    await stop_all_computes(platform.store, platform.engine)
    assert not (await platform.engine.observe()).running_endpoints
