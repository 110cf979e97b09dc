"""Snapshots and their schedules: the rows, in both back ends."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bough.domain.branch import Branch, Volume
from bough.domain.snapshot import Snapshot, SnapshotState
from bough.domain.snapshot_schedule import Frequency, ScheduleItem, SnapshotSchedule
from bough.ids import BranchId, SnapshotId, VolumeId
from bough.store.queries import Duplicate
from bough.store.store import Rows, Store
from support.stores import NOON, add_project, make_project

MINUTE = timedelta(minutes=1)


async def _add_snapshot(rows: Rows, branch: Branch, name: str, **changes: Any) -> Snapshot:
    created = Snapshot(
        id=SnapshotId.new(),
        project_id=branch.project_id,
        branch_id=branch.id,
        volume_id=VolumeId.new(),
        name=name,
        state=SnapshotState.INIT,
        is_manual=True,
        created_at=NOON,
        updated_at=NOON,
        **changes,
    )
    await rows.lineages.add_volume(Volume(id=created.volume_id, project_id=created.project_id, created_at=NOON))
    await rows.snapshots.add(created)
    return created


async def test_a_snapshot_is_found_until_it_is_deleted(store: Store) -> None:
    branch, _ = await add_project(store, make_project())
    other, _ = await add_project(store, make_project(1))
    async with store.transaction() as rows:
        first = await _add_snapshot(rows, branch, "ünïcode \u2603")
        second = await _add_snapshot(rows, branch, "second", lsn="0/1A", at=NOON, full_bytes=2**41, own_bytes=1)
        await rows.snapshots.save(replace(first, created_at=NOON - MINUTE, state=SnapshotState.READY))
        await _add_snapshot(rows, other, "second")
    async with store.read() as rows:
        found = await rows.snapshots.list_in_project(branch.project_id)
        assert [each.name for each in found] == ["second", "ünïcode \u2603"], "the newest comes first"
        assert found[0] == second
        assert await rows.snapshots.get(branch.project_id, second.id) == second
        assert await rows.snapshots.get(other.project_id, second.id) is None
        assert await rows.snapshots.get_by_name(branch.project_id, "second") == second
        assert await rows.snapshots.list_names(branch.project_id) == {"second", "ünïcode \u2603"}
        assert await rows.snapshots.count_in_project(branch.project_id) == 2
    async with store.transaction() as rows:
        await rows.snapshots.save(replace(second, deleted_at=NOON))
        assert await rows.snapshots.get_by_name(branch.project_id, "second") is None
        assert await rows.snapshots.count_in_project(branch.project_id) == 1
        assert len(await rows.snapshots.list_with_deleted(branch.project_id)) == 2
        again = await _add_snapshot(rows, branch, "second")
        await rows.snapshots.delete(second)
        assert again.volume_id in await rows.lineages.list_volume_ids(branch.project_id)
        assert second.volume_id not in await rows.lineages.list_volume_ids(branch.project_id)


async def test_its_volume_is_told_with_its_name(store: Store) -> None:
    branch, _ = await add_project(store, make_project(name="orchard"))
    async with store.transaction() as rows:
        created = await _add_snapshot(rows, branch, "kept")
        orphan = await _add_snapshot(rows, branch, "orphan")
        await rows.snapshots.save(replace(orphan, branch_id=BranchId("br-gone")))
        uses = {use.volume_id: use for use in await rows.volume_uses.list_all()}
    assert (uses[created.volume_id].snapshot_name, uses[created.volume_id].branch_name) == ("kept", branch.name)
    assert (uses[orphan.volume_id].branch_name, uses[orphan.volume_id].project_name) == ("br-gone", "orchard")
    assert uses[branch.volume_id].snapshot_name is None


async def test_a_name_is_taken_once_in_a_project(store: Store) -> None:
    branch, _ = await add_project(store, make_project())
    async with store.transaction() as rows:
        await _add_snapshot(rows, branch, "same")
        other = await _add_snapshot(rows, branch, "other")
    with pytest.raises(Duplicate):
        async with store.transaction() as rows:
            await _add_snapshot(rows, branch, "same")
    with pytest.raises(Duplicate):
        async with store.transaction() as rows:
            await rows.snapshots.save(replace(other, name="same"))


async def test_those_whose_time_is_over_are_found_in_projects_that_live(store: Store) -> None:
    project, deleted = make_project(), make_project(1, deleted_at=NOON)
    branch, _ = await add_project(store, project)
    gone, _ = await add_project(store, deleted)
    async with store.transaction() as rows:
        late = await _add_snapshot(rows, branch, "late", expires_at=NOON)
        early = await _add_snapshot(rows, branch, "early", expires_at=NOON - MINUTE)
        await _add_snapshot(rows, branch, "to come", expires_at=NOON + MINUTE)
        await _add_snapshot(rows, branch, "for ever")
        await _add_snapshot(rows, branch, "gone", expires_at=NOON, deleted_at=NOON)
        await _add_snapshot(rows, gone, "late", expires_at=NOON)
    async with store.read() as rows:
        assert await rows.snapshots.list_expired(NOON, 10) == [early, late]
        assert await rows.snapshots.list_expired(NOON, 1) == [early]


async def test_schedules(store: Store) -> None:
    project = make_project()
    branch, _ = await add_project(store, project)
    items = (
        ScheduleItem(frequency=Frequency.HOURLY, retention_seconds=3600),
        ScheduleItem(frequency=Frequency.MONTHLY, hour=5, day=31),
    )
    schedule = SnapshotSchedule(branch_id=branch.id, project_id=project.id, items=items, next_at=NOON, updated_at=NOON)
    async with store.transaction() as rows:
        assert await rows.snapshot_schedules.get(branch.id) is None
        await rows.snapshot_schedules.replace(schedule)
        assert await rows.snapshot_schedules.get(branch.id) == schedule
        assert await rows.snapshot_schedules.list_due(NOON - MINUTE, 10) == []
        assert await rows.snapshot_schedules.list_due(NOON, 10) == [schedule]
        later = replace(schedule, next_at=NOON + MINUTE, items=items[:1])
        await rows.snapshot_schedules.replace(later)
        assert await rows.snapshot_schedules.list_due(NOON, 10) == []
        assert await rows.snapshot_schedules.list_due(NOON + MINUTE, 10) == [later]
        await rows.branches.save(replace(branch, deleted_at=NOON))
        assert await rows.snapshot_schedules.list_due(NOON + MINUTE, 10) == []
        await rows.snapshot_schedules.remove(branch.id)
        assert await rows.snapshot_schedules.get(branch.id) is None
