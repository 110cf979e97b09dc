"""History on real data: bases and archived WAL come and go with the window, and archiving that fails is heard of."""

import json
import os
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import world
from bough import clock
from bough.control import history_notes
from bough.domain.branch import BranchState, Lineage
from bough.domain.operation import OperationAction
from bough.ids import BranchId, ProjectId, VolumeId
from bough.operations.action import Wish
from bough.postgres import conf
from bough.tasks.history_alarm import HistoryAlarm
from bough.tasks.keep_history import KeepHistory
from bough.tasks.measure_branches import MeasureBranches
from images import loop_image
from requires import require_cow
from world import API, Platform

MB = 1024**2
WRITE = "create table {} as select repeat(md5(n::text), 32) as x from generate_series(1, 20000) as n"  # 20 MB


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    require_cow()  # where every base is a copy they are rare
    with loop_image("xfs") as folder:
        async with world.platform_in(folder, history_base_bytes=16 * MB, history_alarm_bytes=16 * MB) as made:
            yield made


def task_of(platform: Platform) -> KeepHistory:
    parts = platform.parts
    return KeepHistory(platform.store, platform.engine, HistoryAlarm(parts.settings, parts.history_figures))


async def measured_and_kept(platform: Platform, task: KeepHistory) -> None:
    await MeasureBranches(platform.store, platform.engine, platform.parts.figures, platform.parts.activity).run()
    await task.run()


async def lineage_of(platform: Platform, made: dict[str, Any]) -> Lineage:
    async with platform.store.read() as rows:
        [past] = await rows.lineages.past(BranchId(made["branch"]["id"]))
    return past.lineage


def bases(platform: Platform, volume: VolumeId) -> list[str]:
    return sorted(path.name for path in (platform.parts.settings.home / "volumes").glob(f"base-{volume}-*"))


def archive(platform: Platform, volume: VolumeId) -> Path:
    return platform.parts.settings.home / "wal" / volume


async def test_bases_are_taken_as_wal_is_written_and_go_with_the_window(platform: Platform) -> None:
    made = await platform.ready_project()
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
    await platform.settle()
    assert bases(platform, first.volume_id) == []
    gone = await lineage_of(platform, made)
    assert (gone.began_at, gone.history_bytes < 8 * MB) == (None, True)

    await platform.client.patch(path, json={"project": {"history_retention_seconds": 3600}})
    await platform.settle()
    await task_of(platform).run()
    again = await lineage_of(platform, made)
    assert again.began_at is not None
    assert again.began_at > first.began_at
    assert len(bases(platform, first.volume_id)) == 1


async def test_archiving_that_fails_is_heard_of(platform: Platform) -> None:
    made = await platform.ready_project()
    task = task_of(platform)
    await measured_and_kept(platform, task)
    volume = (await lineage_of(platform, made)).volume_id
    place = archive(platform, volume)
    shutil.rmtree(place)
    place.touch()  # a file where its folder was
    await platform.query(made, WRITE.format("a"))
    marks = platform.parts.settings.home / "volumes" / volume / "data/pg_wal/archive_status"
    for mark in marks.glob("*.ready"):
        os.utime(mark, (0, 0))  # it waits for long
    await measured_and_kept(platform, task)
    [(found, figure)] = platform.parts.history_figures.troubles().items()
    assert (found, figure.branch_id, figure.project_id) == (volume, made["branch"]["id"], made["project"]["id"])
    assert figure.waiting_bytes >= 16 * MB
    assert "wait to be archived" in (figure.trouble or "")
    [note] = history_notes.read(platform.parts.settings)
    assert note.volume_id == volume


async def test_a_compute_from_before_there_was_history_has_one_from_its_next_start_on(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.delitem(conf.EVERY_COMPUTE, "archive_mode")
        made = await platform.ready_project()
    volume = (await lineage_of(platform, made)).volume_id
    record = platform.parts.settings.home / "volumes" / volume / "volume.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "first_segment": None}))
    await measured_and_kept(platform, task_of(platform))
    assert (await lineage_of(platform, made)).began_at is None
    assert bases(platform, volume) == []

    path = f"{API}/projects/{made['project']['id']}/endpoints/{made['endpoints'][0]['id']}/restart"
    await platform.client.post(path)
    await platform.settle()
    await measured_and_kept(platform, task_of(platform))
    assert (await lineage_of(platform, made)).began_at is not None
    assert len(bases(platform, volume)) == 1


async def test_the_history_of_an_archived_branch_goes_with_its_window(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await platform.ready_project(history_retention_seconds=3600)
    for table in ("a", "b"):
        await platform.query(made, WRITE.format(table))
        await measured_and_kept(platform, task_of(platform))
    before = await lineage_of(platform, made)
    assert len(bases(platform, before.volume_id)) == 2
    project_id, branch_id = ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"])
    await platform.client.post(f"{API}/projects/{project_id}/endpoints/{made['endpoints'][0]['id']}/suspend")
    await platform.settle()
    async with platform.store.transaction() as rows:
        wish = Wish(OperationAction.TIMELINE_ARCHIVE, project_id, branch_id)
        await platform.parts.queue.enqueue(rows, [wish], "test")
    await platform.settle()
    later = clock.now() + timedelta(hours=2)
    monkeypatch.setattr(clock, "now", lambda: later)
    await task_of(platform).run()
    after = await lineage_of(platform, made)
    assert len(bases(platform, before.volume_id)) == 1
    assert after.history_bytes < before.history_bytes
    assert not platform.parts.history_figures.troubles()
    monkeypatch.undo()
    async with platform.store.read() as rows:
        branch = await rows.branches.get(project_id, branch_id)
    assert branch is not None
    assert branch.state is BranchState.ARCHIVED
    body = {"branch": {"parent_id": branch_id}, "endpoints": [{"type": "read_write"}]}
    child = (await platform.client.post(f"{API}/projects/{project_id}/branches", json=body)).json()
    await platform.settle()
    async with platform.connect(child["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        assert await client.fetchval("select count(*) from b") == 20000
