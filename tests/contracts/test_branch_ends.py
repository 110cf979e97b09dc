"""Deleted branches: rows that are deleted, rows that other branches still need, and due work, in both back ends."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bough.domain.branch import Branch, BranchLineage, BranchState, Volume
from bough.domain.endpoint import EndpointState
from bough.domain.project import Project
from bough.domain.snapshot import Snapshot, SnapshotState
from bough.domain.snapshot_schedule import Frequency, ScheduleItem, SnapshotSchedule
from bough.ids import SnapshotId, VolumeId
from bough.store.store import Rows, Store
from support.stores import NOON, add_branch, add_lineage, add_project, make_branch, make_endpoint, make_project

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


async def add_child(store: Store, parent: Branch, name: str, **fields: Any) -> Branch:
    values = {"is_default": False, "name": name, "parent_id": parent.id, "state": BranchState.READY, **fields}
    project = make_project(id=parent.project_id)
    return await add_branch(store, make_branch(project, **values))


async def add_root(store: Store, **fields: Any) -> tuple[Project, Branch]:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY, **fields)
    return project, root


async def add_retired_volume(store: Store, branch: Branch, **fields: Any) -> VolumeId:
    """Adds a volume that the branch had before a restore."""
    volume = Volume(id=VolumeId.new(), project_id=branch.project_id, created_at=NOON, retired_at=NOON)
    async with store.transaction() as rows:
        await rows.lineages.add_volume(volume)
        await add_lineage(rows, branch, volume.id, **fields)
    return volume.id


async def list_volume_ids(rows: Rows, branch: Branch) -> list[VolumeId]:
    return [lineage_range.lineage.volume_id for lineage_range in await rows.lineages.list_ranges(branch.id)]


async def test_what_is_cleared_of_a_deleted_branch_leaves_its_row_and_its_volumes(store: Store) -> None:
    project, root = await add_root(store)
    child = await add_child(store, root, "child", deleted_at=NOON)
    async with store.transaction() as rows:
        await rows.branches.delete_contents(child.id)
    async with store.read() as rows:
        assert await rows.branches.get(project.id, child.id) == child
        assert await rows.lineages.list_ranges(child.id) == []
        assert await rows.lineages.get_by_volume(child.volume_id) is None
        assert child.volume_id in await rows.lineages.list_volume_ids(project.id), "the row of the branch refers to it"
        assert await list_volume_ids(rows, root) == [root.volume_id]


async def test_a_lineage_goes_with_the_last_branch_that_was_it(store: Store) -> None:
    project, root = await add_root(store)
    one = await add_child(store, root, "one", deleted_at=NOON)
    other = await add_child(store, root, "other")
    shared = await add_retired_volume(store, one)
    async with store.transaction() as rows:
        lineage = await rows.lineages.get_by_volume(shared)
        assert lineage
        await rows.lineages.add_branch_lineage(BranchLineage(branch_id=other.id, position=1, lineage_id=lineage.id))
        await rows.branches.delete_contents(one.id)
        await rows.lineages.remove_volumes([shared])
    async with store.read() as rows:
        assert await list_volume_ids(rows, other) == [other.volume_id, shared]
        assert [volume.id for volume in await rows.lineages.list_retired_volumes()] == [shared]
    async with store.transaction() as rows:
        await rows.branches.delete(other.id)
    async with store.read() as rows:
        assert await rows.lineages.list_retired_volumes() == []
        assert await rows.lineages.get_by_volume(shared) is None
        assert set(await rows.lineages.list_volume_ids(project.id)) == {root.volume_id, one.volume_id}


async def test_a_retired_volume_is_not_lost_sight_of_when_its_branch_is_cleared(store: Store) -> None:
    """Another volume depends on it, so its row and its lineage's row stay for the task that removes it later."""
    project, root = await add_root(store)
    child = await add_child(store, root, "child", deleted_at=NOON)
    async with store.transaction() as rows:
        await rows.lineages.retire_volume(child.volume_id, NOON)
        await rows.branches.delete_contents(child.id)
    async with store.read() as rows:
        assert [volume.id for volume in await rows.lineages.list_retired_volumes()] == [child.volume_id]
        assert await rows.lineages.get_by_volume(child.volume_id) is not None
    async with store.transaction() as rows:
        await rows.lineages.remove_volume(child.volume_id)
    async with store.read() as rows:
        assert await rows.lineages.list_retired_volumes() == []
        assert await rows.branches.get(project.id, child.id) == child, "it is still listed as a deleted branch"


async def test_what_is_kept_can_be_found_after_its_branch_is_forgotten(store: Store) -> None:
    project, root = await add_root(store)
    before = await add_retired_volume(store, root)
    async with store.transaction() as rows:
        await rows.branches.delete(root.id, kept_volumes=[root.volume_id])
    async with store.read() as rows:
        assert await rows.branches.list_with_deleted(project.id) == []
        assert await rows.lineages.list_volume_ids(project.id) == [root.volume_id]
        assert await rows.lineages.get_by_volume(before) is None


async def test_volumes_of_replicas_and_snapshots_are_a_projects_too_and_go_with_it(store: Store) -> None:
    project, root = await add_root(store)
    replica, copy = make_endpoint(root, volume_id=VolumeId.new(), state=EndpointState.IDLE), VolumeId.new()
    snapshot = Snapshot(
        id=SnapshotId.new(),
        project_id=project.id,
        branch_id=root.id,
        volume_id=copy,
        name="before",
        state=SnapshotState.READY,
        is_manual=True,
        created_at=NOON,
        updated_at=NOON,
    )
    async with store.transaction() as rows:
        for volume in (replica.volume_id, copy):
            assert volume is not None
            await rows.lineages.add_volume(Volume(id=volume, project_id=project.id, created_at=NOON))
        await rows.endpoints.add(replica)
        await rows.snapshots.add(snapshot)
    async with store.transaction() as rows:
        assert set(await rows.lineages.list_volume_ids(project.id)) == {root.volume_id, replica.volume_id, copy}
        await rows.lineages.remove_volumes([root.volume_id, copy])
        assert copy in await rows.lineages.list_volume_ids(project.id), "a snapshot uses it"
        await rows.branches.delete(root.id)
        assert await rows.lineages.list_volume_ids(project.id) == [copy]
        await rows.projects.purge(project.id, NOON)
        assert await rows.lineages.list_volume_ids(project.id) == []
    async with store.transaction() as rows:
        await rows.projects.delete(project.id)


async def test_a_branch_is_due_when_its_time_is_over_and_it_was_not_begun(store: Store) -> None:
    _, root = await add_root(store)
    times = {"early": NOON, "late": NOON + HOUR, "never": None}
    created = {
        name: await add_child(store, root, name, deleted_at=NOON - DAY, recoverable_until=until)
        for name, until in times.items()
    }
    async with store.read() as rows:
        assert await rows.branches.list_past_recovery(NOON - HOUR, 10) == []
        assert await rows.branches.list_past_recovery(NOON, 10) == [created["early"]]
        assert await rows.branches.list_past_recovery(NOON + DAY, 10) == [created["early"], created["late"]]
        assert await rows.branches.list_past_recovery(NOON + DAY, 1) == [created["early"]]
    async with store.transaction() as rows:
        await rows.branches.end_recovery(created["early"].id)
        assert await rows.branches.list_past_recovery(NOON + DAY, 10) == [created["late"]]


@pytest.mark.parametrize(
    ("fields", "uses"),
    [
        ({}, {}),
        ({"created_at": NOON + HOUR}, {}),
        ({"is_default": True}, {}),
        ({"is_protected": True}, {}),
        ({"state": BranchState.INIT}, {}),
        ({"state_changed_at": NOON + 2 * DAY}, {}),
        ({"last_reset_at": NOON + 2 * DAY}, {}),
        ({}, {"state": EndpointState.ACTIVE}),
        ({}, {"pending_state": EndpointState.ACTIVE}),
        ({}, {"last_active": NOON + 2 * DAY}),
        ({}, {"suspended_at": NOON + 2 * DAY, "deleted_at": NOON + 2 * DAY}),
    ],
    ids=str,
)
async def test_unused_branches_are_those_that_nothing_speaks_for(
    store: Store, fields: dict[str, Any], uses: dict[str, Any]
) -> None:
    _, root = await add_root(store, is_default=False)
    child = await add_child(store, root, "child", **fields)
    async with store.transaction() as rows:
        await rows.endpoints.add(make_endpoint(child, **{"state": EndpointState.IDLE, "pending_state": None, **uses}))
    async with store.read() as rows:
        due = await rows.unused_branches.list_due_for_archiving(created_before=NOON, used_since=NOON + DAY, limit=10)
    assert due == ([] if fields or uses else [child])


async def test_one_whose_snapshots_are_taken_by_a_schedule_is_in_use(store: Store) -> None:
    project, root = await add_root(store, is_default=False)

    async def due() -> list[Branch]:
        async with store.read() as rows:
            return await rows.unused_branches.list_due_for_archiving(created_before=NOON, used_since=NOON, limit=10)

    async with store.transaction() as rows:
        [endpoint] = await rows.endpoints.list_in_branch(root.id)
        await rows.endpoints.save(replace(endpoint, state=EndpointState.IDLE, pending_state=None))
    assert await due() == [root]
    async with store.transaction() as rows:
        hourly = ScheduleItem(frequency=Frequency.HOURLY, retention_seconds=3600)
        await rows.snapshot_schedules.replace(
            SnapshotSchedule(branch_id=root.id, project_id=project.id, items=[hourly], next_at=NOON, updated_at=NOON)
        )
    assert await due() == []


async def test_children_are_unused_before_their_parents(store: Store) -> None:
    _, root = await add_root(store, is_default=False)
    parent = await add_child(store, root, "parent")
    child = await add_child(store, parent, "child")

    async def due() -> list[Branch]:
        async with store.read() as rows:
            return await rows.unused_branches.list_due_for_archiving(created_before=NOON, used_since=NOON, limit=10)

    assert await due() == [child]
    for state in ({"state": BranchState.ARCHIVED}, {"deleted_at": NOON}):
        async with store.transaction() as rows:
            assert await rows.unused_branches.has_unarchived_children(parent.id)
            await rows.branches.save(replace(child, **state))
        assert await due() == [parent]
        async with store.transaction() as rows:
            assert not await rows.unused_branches.has_unarchived_children(parent.id)
            await rows.branches.save(child)
