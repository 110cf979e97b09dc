"""History on real data: bases and archived WAL come and go with the window, and archiving that fails is heard of."""

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
    require_cow()  # where every base is a copy they are rare
    with mount_loop_image("xfs") as folder:
        async with open_platform_in(folder, history_base_bytes=16 * MB, history_alarm_bytes=16 * MB) as made:
            yield made


def task_of(platform: Platform) -> MaintainHistory:
    parts = platform.services
    return MaintainHistory(platform.store, platform.engine, HistoryAlarm(parts.settings, parts.history_measurements))


async def measured_and_kept(platform: Platform, task: MaintainHistory) -> None:
    await MeasureBranches(
        platform.store, platform.engine, platform.services.compute_measurements, platform.services.activity
    ).run()
    await task.run()


async def lineage_of(platform: Platform, made: dict[str, Any]) -> Lineage:
    async with platform.store.read() as rows:
        [past] = await rows.lineages.list_ranges(BranchId(made["branch"]["id"]))
    return past.lineage


def bases(platform: Platform, volume: VolumeId) -> list[str]:
    return sorted(path.name for path in (platform.services.settings.home / "volumes").glob(f"base-{volume}-*"))


def archive(platform: Platform, volume: VolumeId) -> Path:
    return platform.services.settings.home / "wal" / volume


async def test_bases_are_taken_as_wal_is_written_and_go_with_the_window(platform: Platform) -> None:
    made = await platform.create_ready_project()
    task = task_of(platform)
    await measured_and_kept(platform, task)
    first = await lineage_of(platform, made)
    assert first.began_at is not None
    assert bases(platform, first.volume_id) == []

    for table in ("a", "b"):
        await platform.query(made, WRITE.format(table))
        await measured_and_kept(platform, task)
    assert len(bases(platform, first.volume_id)) == 2
    kept = await lineage_of(platform, made)
    assert kept.began_at == first.began_at
    assert kept.history_bytes > 40 * MB
    path = f"{API}/projects/{made['project']['id']}"
    shown = (await platform.client.get(path)).json()["project"]
    assert shown["synthetic_storage_size"] > kept.history_bytes + 40 * MB
    assert shown["written_data_bytes"] > 40 * MB

    answer = await platform.client.patch(path, json={"project": {"history_retention_seconds": 0}})
    (operation,) = answer.json()["operations"]
    assert operation["action"] == "apply_storage_config"
    await platform.run_operations()
    assert bases(platform, first.volume_id) == []
    gone = await lineage_of(platform, made)
    assert (gone.began_at, gone.history_bytes < 8 * MB) == (None, True)

    await platform.client.patch(path, json={"project": {"history_retention_seconds": 3600}})
    await platform.run_operations()
    await task_of(platform).run()
    again = await lineage_of(platform, made)
    assert again.began_at is not None
    assert again.began_at > first.began_at
    assert len(bases(platform, first.volume_id)) == 1


async def test_archiving_that_fails_is_heard_of(platform: Platform) -> None:
    made = await platform.create_ready_project()
    task = task_of(platform)
    await measured_and_kept(platform, task)
    volume = (await lineage_of(platform, made)).volume_id
    place = archive(platform, volume)
    shutil.rmtree(place)
    place.touch()  # a file where its folder was
    await platform.query(made, WRITE.format("a"))
    marks = platform.services.settings.home / "volumes" / volume / "data/pg_wal/archive_status"
    for mark in marks.glob("*.ready"):
        os.utime(mark, (0, 0))  # it waits for long
    await measured_and_kept(platform, task)
    [(found, figure)] = platform.services.history_measurements.with_problems().items()
    assert (found, figure.branch_id, figure.project_id) == (volume, made["branch"]["id"], made["project"]["id"])
    assert figure.waiting_bytes >= 16 * MB
    assert "wait to be archived" in (figure.problem or "")
    [note] = history_problems.read(platform.services.settings)
    assert note.volume_id == volume


async def test_a_compute_from_before_there_was_history_has_one_from_its_next_start_on(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.delitem(postgresql_conf.COMPUTE_DEFAULTS, "archive_mode")
        made = await platform.create_ready_project()
    volume = (await lineage_of(platform, made)).volume_id
    record = platform.services.settings.home / "volumes" / volume / "volume.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "first_segment": None}))
    await measured_and_kept(platform, task_of(platform))
    assert (await lineage_of(platform, made)).began_at is None
    assert bases(platform, volume) == []

    path = f"{API}/projects/{made['project']['id']}/endpoints/{made['endpoints'][0]['id']}/restart"
    await platform.client.post(path)
    await platform.run_operations()
    await measured_and_kept(platform, task_of(platform))
    assert (await lineage_of(platform, made)).began_at is not None
    assert len(bases(platform, volume)) == 1


async def test_the_history_of_an_archived_branch_goes_with_its_window(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await platform.create_ready_project(history_retention_seconds=3600)
    for table in ("a", "b"):
        await platform.query(made, WRITE.format(table))
        await measured_and_kept(platform, task_of(platform))
    before = await lineage_of(platform, made)
    assert len(bases(platform, before.volume_id)) == 2
    project_id, branch_id = ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"])
    await platform.client.post(f"{API}/projects/{project_id}/endpoints/{made['endpoints'][0]['id']}/suspend")
    await platform.run_operations()
    async with platform.store.transaction() as rows:
        wish = NewOperation(ArchiveBranch, project_id, branch_id)
        await platform.services.queue.enqueue(rows, [wish], "test")
    await platform.run_operations()
    later = clock.now() + timedelta(hours=2)
    monkeypatch.setattr(clock, "now", lambda: later)
    await task_of(platform).run()
    after = await lineage_of(platform, made)
    assert len(bases(platform, before.volume_id)) == 1
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
