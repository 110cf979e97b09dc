"""History on real data: bases and archived WAL follow the retention, and failing archiving is reported."""

import json
import os
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bough import clock
from bough.control.platform import history_problems
from bough.domain.branch import BranchState, Lineage
from bough.ids import BranchId, ProjectId, VolumeId
from bough.operations.action import NewOperation
from bough.operations.actions.archive_branch import ArchiveBranch
from bough.postgres import postgresql_conf
from bough.tasks.history_alarm import HistoryAlarm
from bough.tasks.maintain_history import MaintainHistory
from bough.tasks.measure_branches import MeasureBranches
from support.loop_images import mount_loop_image
from support.platform import API, Platform, open_platform_in
from support.requirements import require_cow

MB = 1024**2
WRITE = "create table {} as select repeat(md5(n::text), 32) as x from generate_series(1, 20000) as n"  # 20 MB


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    require_cow()  # bases are rare where each one is a full copy
    with mount_loop_image("xfs") as folder:
        async with open_platform_in(folder, history_base_bytes=16 * MB, history_alarm_bytes=16 * MB) as opened:
            yield opened


def create_task(platform: Platform) -> MaintainHistory:
    services = platform.services
    return MaintainHistory(
        platform.store, platform.engine, HistoryAlarm(services.settings, services.history_measurements)
    )


async def measure_and_maintain(platform: Platform, task: MaintainHistory) -> None:
    await MeasureBranches(
        platform.store, platform.engine, platform.services.compute_measurements, platform.services.activity
    ).run()
    await task.run()


async def get_lineage(platform: Platform, created: dict[str, Any]) -> Lineage:
    async with platform.store.read() as rows:
        [lineage_range] = await rows.lineages.list_ranges(BranchId(created["branch"]["id"]))
    return lineage_range.lineage


def list_bases(platform: Platform, volume: VolumeId) -> list[str]:
    return sorted(path.name for path in (platform.services.settings.home / "volumes").glob(f"base-{volume}-*"))


def archive_folder(platform: Platform, volume: VolumeId) -> Path:
    return platform.services.settings.home / "wal" / volume


async def test_bases_are_taken_as_wal_is_written_and_go_with_the_window(platform: Platform) -> None:
    created = await platform.create_ready_project()
    task = create_task(platform)
    await measure_and_maintain(platform, task)
    first = await get_lineage(platform, created)
    assert first.began_at is not None
    assert list_bases(platform, first.volume_id) == []

    for table in ("a", "b"):
        await platform.query(created, WRITE.format(table))
        await measure_and_maintain(platform, task)
    assert len(list_bases(platform, first.volume_id)) == 2
    lineage = await get_lineage(platform, created)
    assert lineage.began_at == first.began_at
    assert lineage.history_bytes > 40 * MB
    path = f"{API}/projects/{created['project']['id']}"
    project = (await platform.client.get(path)).json()["project"]
    assert project["synthetic_storage_size"] > lineage.history_bytes + 40 * MB
    assert project["written_data_bytes"] > 40 * MB

    response = await platform.client.patch(path, json={"project": {"history_retention_seconds": 0}})
    (operation,) = response.json()["operations"]
    assert operation["action"] == "apply_storage_config"
    await platform.run_operations()
    assert list_bases(platform, first.volume_id) == []
    pruned = await get_lineage(platform, created)
    assert (pruned.began_at, pruned.history_bytes < 8 * MB) == (None, True)

    await platform.client.patch(path, json={"project": {"history_retention_seconds": 3600}})
    await platform.run_operations()
    await create_task(platform).run()
    again = await get_lineage(platform, created)
    assert again.began_at is not None
    assert again.began_at > first.began_at
    assert len(list_bases(platform, first.volume_id)) == 1


async def test_archiving_that_fails_is_heard_of(platform: Platform) -> None:
    created = await platform.create_ready_project()
    task = create_task(platform)
    await measure_and_maintain(platform, task)
    volume = (await get_lineage(platform, created)).volume_id
    place = archive_folder(platform, volume)
    shutil.rmtree(place)
    place.touch()  # a file in place of the folder
    await platform.query(created, WRITE.format("a"))
    archive_status = platform.services.settings.home / "volumes" / volume / "data/pg_wal/archive_status"
    for ready_file in archive_status.glob("*.ready"):
        os.utime(ready_file, (0, 0))  # as if it had waited for a long time
    await measure_and_maintain(platform, task)
    [(volume_id, measurement)] = platform.services.history_measurements.with_problems().items()
    assert (volume_id, measurement.branch_id, measurement.project_id) == (
        volume,
        created["branch"]["id"],
        created["project"]["id"],
    )
    assert measurement.waiting_bytes >= 16 * MB
    assert "wait to be archived" in (measurement.problem or "")
    [problem] = history_problems.read(platform.services.settings)
    assert problem.volume_id == volume


async def test_a_compute_from_before_there_was_history_has_one_from_its_next_start_on(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.delitem(postgresql_conf.COMPUTE_DEFAULTS, "archive_mode")
        created = await platform.create_ready_project()
    volume = (await get_lineage(platform, created)).volume_id
    record = platform.services.settings.home / "volumes" / volume / "volume.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "first_segment": None}))
    await measure_and_maintain(platform, create_task(platform))
    assert (await get_lineage(platform, created)).began_at is None
    assert list_bases(platform, volume) == []

    path = f"{API}/projects/{created['project']['id']}/endpoints/{created['endpoints'][0]['id']}/restart"
    await platform.client.post(path)
    await platform.run_operations()
    await measure_and_maintain(platform, create_task(platform))
    assert (await get_lineage(platform, created)).began_at is not None
    assert len(list_bases(platform, volume)) == 1


async def test_the_history_of_an_archived_branch_goes_with_its_window(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await platform.create_ready_project(history_retention_seconds=3600)
    for table in ("a", "b"):
        await platform.query(created, WRITE.format(table))
        await measure_and_maintain(platform, create_task(platform))
    before = await get_lineage(platform, created)
    assert len(list_bases(platform, before.volume_id)) == 2
    project_id, branch_id = ProjectId(created["project"]["id"]), BranchId(created["branch"]["id"])
    await platform.client.post(f"{API}/projects/{project_id}/endpoints/{created['endpoints'][0]['id']}/suspend")
    await platform.run_operations()
    async with platform.store.transaction() as rows:
        operation = NewOperation(ArchiveBranch, project_id, branch_id)
        await platform.services.queue.enqueue(rows, [operation], "test")
    await platform.run_operations()
    later = clock.now() + timedelta(hours=2)
    monkeypatch.setattr(clock, "now", lambda: later)
    await create_task(platform).run()
    after = await get_lineage(platform, created)
    assert len(list_bases(platform, before.volume_id)) == 1
    assert after.history_bytes < before.history_bytes
    assert not platform.services.history_measurements.with_problems()
    monkeypatch.undo()
    async with platform.store.read() as rows:
        branch = await rows.branches.get(project_id, branch_id)
    assert branch is not None
    assert branch.state is BranchState.ARCHIVED
    body = {"branch": {"parent_id": branch_id}, "endpoints": [{"type": "read_write"}]}
    child = (await platform.client.post(f"{API}/projects/{project_id}/branches", json=body)).json()
    await platform.run_operations()
    async with platform.connect(child["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        assert await client.fetchval("select count(*) from b") == 20000
