"""What computes used: processor time and WAL, measured as they run, over restarts, and before they stop."""

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
WRITTEN = 3_000_000  # bytes at least


async def measure(platform: Platform) -> None:
    await MeasureBranches(
        platform.store, platform.engine, platform.services.compute_measurements, platform.services.activity
    ).run()


async def use(platform: Platform, made: dict[str, Any], table: str) -> None:
    await platform.query(made, BURN)
    await platform.query(made, WRITE.format(table))


async def used(platform: Platform, made: dict[str, Any]) -> tuple[EndpointUsage, Branch]:
    async with platform.store.read() as rows:
        usage = await rows.usage.get(EndpointId(made["endpoints"][0]["id"]))
        branch = await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"]))
    assert usage is not None
    assert branch is not None
    return usage, branch


async def call(platform: Platform, made: dict[str, Any], verb: str) -> None:
    endpoint = made["endpoints"][0]
    path = f"{API}/projects/{endpoint['project_id']}/endpoints/{endpoint['id']}/{verb}"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()


async def test_what_a_branch_used_is_measured_while_it_runs(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await measure(platform)
    first, before = await used(platform, made)
    assert before.logical_size is not None
    await use(platform, made, "one")
    await measure(platform)
    second, after = await used(platform, made)
    assert second.cpu_seconds > first.cpu_seconds
    assert second.cpu_seconds == pytest.approx(second.cpu_run_seconds)
    assert after.written_bytes > before.written_bytes + WRITTEN
    assert after.logical_size is not None
    assert after.logical_size > before.logical_size + WRITTEN


async def test_another_measure_adds_only_the_difference(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await measure(platform)
    _, before = await used(platform, made)
    await use(platform, made, "one")
    for _ in range(3):
        await measure(platform)
    usage, after = await used(platform, made)
    assert usage.cpu_seconds == pytest.approx(usage.cpu_run_seconds)
    assert before.wal_position is not None
    assert after.wal_position is not None
    assert after.written_bytes == after.wal_position - before.wal_position


async def test_what_is_known_already_is_no_news(platform: Platform) -> None:
    made = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(made)
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
    made = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(made)
    early = await usage_measurement.measure_usage(platform.engine, endpoint)
    await use(platform, made, "one")
    await measure(platform)
    before = await used(platform, made)
    assert early is not None
    async with platform.store.transaction() as rows:
        await usage_measurement.record_usage(rows, endpoint, early)
    assert await used(platform, made) == before


async def test_a_measure_of_what_a_branch_was_before_a_restore_tells_nothing_of_it(platform: Platform) -> None:
    made = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(made)
    await use(platform, made, "one")
    late = await usage_measurement.measure_usage(platform.engine, endpoint)
    assert late is not None
    async with platform.store.transaction() as rows:
        [past] = await rows.lineages.list_ranges(endpoint.branch_id)
        restored = replace(past.branch_lineage, from_at=clock.now())
        await rows.lineages.replace_stretches(endpoint.branch_id, [past.branch_lineage, restored])
    _, before = await used(platform, made)
    async with platform.store.transaction() as rows:
        await usage_measurement.record_usage(rows, endpoint, late)
    usage, after = await used(platform, made)
    assert after == before
    assert usage.cpu_seconds == pytest.approx(late.cpu_seconds)


async def test_a_read_replica_tells_nothing_of_its_branch(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await measure(platform)
    first, before = await used(platform, made)
    endpoint = await platform.get_endpoint(made)
    usage = await usage_measurement.measure_usage(platform.engine, endpoint)
    assert usage is not None
    behind = replace(usage, cpu_seconds=usage.cpu_seconds + 5, wal_position=None, logical_bytes=1)
    async with platform.store.transaction() as rows:
        assert await usage_measurement.has_new_usage(rows, endpoint, behind)
        await usage_measurement.record_usage(rows, endpoint, behind)
        assert not await usage_measurement.has_new_usage(rows, endpoint, behind)
    second, after = await used(platform, made)
    assert second.cpu_seconds >= first.cpu_seconds + 5
    assert after == before


async def test_the_last_of_a_run_is_measured_before_it_stops_and_another_run_adds_to_it(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await measure(platform)
    first, before = await used(platform, made)
    await use(platform, made, "one")
    await call(platform, made, "suspend")
    asleep, written = await used(platform, made)
    assert asleep.cpu_seconds > first.cpu_seconds
    assert written.written_bytes > before.written_bytes + WRITTEN

    await measure(platform)
    assert await used(platform, made) == (asleep, written)
    await call(platform, made, "start")
    await use(platform, made, "two")
    await measure(platform)
    again, more = await used(platform, made)
    assert again.cpu_run != asleep.cpu_run
    assert again.cpu_run_seconds > 0
    assert again.cpu_seconds == pytest.approx(asleep.cpu_seconds + again.cpu_run_seconds)
    assert more.written_bytes > written.written_bytes + WRITTEN


async def test_all_that_rest_are_measured_before(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await measure(platform)
    first, before = await used(platform, made)
    await use(platform, made, "one")
    await stop_all_computes(platform.store, platform.engine)
    asleep, after = await used(platform, made)
    assert asleep.cpu_seconds > first.cpu_seconds
    assert after.written_bytes > before.written_bytes + WRITTEN


async def test_a_branch_that_is_deleted_leaves_what_it_used(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await measure(platform)
    first, before = await used(platform, made)
    await use(platform, made, "one")
    project_id, branch_id = ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"])
    wish = NewOperation(DeleteBranch, project_id, branch_id)
    async with platform.services.queue.locked_transaction(wish.lock) as rows:
        await platform.services.queue.enqueue(rows, [wish], "test")
    await platform.run_operations()
    gone, after = await used(platform, made)
    assert not (await platform.engine.observe()).running_endpoints
    assert gone.cpu_seconds > first.cpu_seconds
    assert after.written_bytes > before.written_bytes + WRITTEN
    shown = (await platform.client.get(f"{API}/projects/{project_id}")).json()["project"]
    assert (shown["cpu_used_sec"], shown["written_data_bytes"]) == (int(gone.cpu_seconds), after.written_bytes)


async def test_one_that_cannot_be_asked_keeps_nobody_from_going_on(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, other = await platform.create_ready_project(), await platform.create_ready_project()
    usage_of = platform.engine.measure_usage

    async def refuse(endpoint_id: EndpointId) -> Any:
        if endpoint_id == silent["endpoints"][0]["id"]:
            raise EngineError("The compute did not take our statements.")
        return await usage_of(endpoint_id)

    for each in (silent, other):
        await platform.query(each, BURN)
    monkeypatch.setattr(platform.engine, "measure_usage", refuse)
    figures = ComputeMeasurements()
    await MeasureBranches(platform.store, platform.engine, figures, platform.services.activity).run()
    assert figures.get(EndpointId(silent["endpoints"][0]["id"])) is None
    assert figures.get(EndpointId(other["endpoints"][0]["id"])) is not None
    assert (await used(platform, silent))[0].cpu_seconds == 0
    assert (await used(platform, other))[0].cpu_seconds > 0
    await call(platform, silent, "suspend")
    await stop_all_computes(platform.store, platform.engine)
    assert not (await platform.engine.observe()).running_endpoints
