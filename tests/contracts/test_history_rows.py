"""Lineages with a history, and the storage of projects: the rows, in both back ends."""

from dataclasses import replace
from datetime import datetime, timedelta

from bough.domain.branch import Branch, BranchLineage, BranchState, Volume
from bough.domain.endpoint import EndpointState, EndpointType
from bough.domain.snapshot import Snapshot, SnapshotState
from bough.ids import LineageId, ProjectId, SnapshotId, VolumeId
from bough.store.store import Rows, Store
from support.stores import NOON, add_branch, add_project, make_branch, make_project

HOUR = timedelta(hours=1)


async def get_lineage_id(rows: Rows, branch: Branch) -> LineageId:
    found = await rows.lineages.get_by_volume(branch.volume_id)
    assert found is not None
    return found.id


async def read_storage(store: Store, project_id: ProjectId) -> int | None:
    async with store.read() as rows:
        row = await rows.project_pages.get(project_id)
    assert row is not None
    return row.storage_bytes


async def test_lineages_that_are_looked_after(store: Store) -> None:
    running, endpoint = await add_project(store, make_project(1), state=BranchState.READY, wal_position=2**40)
    suspended, _ = await add_project(store, make_project(2), state=BranchState.READY)
    await add_project(store, make_project(3))  # still being created
    archived, _ = await add_project(store, make_project(4), state=BranchState.ARCHIVED)
    await add_project(store, make_project(5, deleted_at=NOON, recoverable_until=NOON + HOUR), state=BranchState.READY)
    deleted, _ = await add_project(
        store, make_project(6), state=BranchState.READY, deleted_at=NOON, recoverable_until=NOON + HOUR
    )
    gone, _ = await add_project(store, make_project(7), state=BranchState.READY, deleted_at=NOON)
    async with store.transaction() as rows:
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE))
    async with store.read() as rows:
        [written] = await rows.histories.list_running()
        histories = {each.volume_id: each for each in await rows.histories.list_all()}
        [own] = await rows.histories.list_in_project(suspended.project_id)
    assert (written.volume_id, written.branch_id, written.wal_position) == (running.volume_id, running.id, 2**40)
    assert histories.keys() == {each.volume_id for each in (running, suspended, archived, deleted, gone)}
    assert histories[running.volume_id] == written
    assert histories[gone.volume_id].branch_id is None
    assert own == histories[suspended.volume_id]


async def test_a_replica_writes_nothing(store: Store) -> None:
    _, endpoint = await add_project(store, make_project(), state=BranchState.READY)
    async with store.transaction() as rows:
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE, type=EndpointType.READ_ONLY))
    async with store.read() as rows:
        assert await rows.histories.list_running() == []


async def test_how_a_lineage_stands_is_noted(store: Store) -> None:
    branch, _ = await add_project(store, make_project())
    async with store.transaction() as rows:
        lineage_id = await get_lineage_id(rows, branch)
        await rows.histories.save_history_start_and_size(
            lineage_id, began_at=NOON, began_lsn="0/100", history_bytes=2**40
        )
    async with store.read() as rows:
        found = await rows.lineages.get_by_volume(branch.volume_id)
    assert found is not None
    assert (found.began_at, found.began_lsn, found.history_bytes) == (NOON, "0/100", 2**40)


async def test_branch_lineages_are_deleted(store: Store) -> None:
    project = make_project()
    branch, _ = await add_project(store, project)
    other = await add_branch(store, make_branch(project, name="other", is_default=False))
    async with store.transaction() as rows:
        first, second = await get_lineage_id(rows, branch), await get_lineage_id(rows, other)
        branch_lineage = BranchLineage(branch_id=branch.id, position=1, lineage_id=second, from_at=NOON)
        await rows.lineages.add_branch_lineage(branch_lineage)
        await rows.histories.delete_branch_lineage(replace(branch_lineage, lineage_id=first))
        assert len(await rows.lineages.list_ranges(branch.id)) == 2
        await rows.histories.delete_branch_lineage(branch_lineage)
        assert [lineage_range.lineage.id for lineage_range in await rows.lineages.list_ranges(branch.id)] == [first]
        await rows.histories.delete_branch_lineages_of(second)
        assert await rows.lineages.list_ranges(other.id) == []


async def test_a_restore_makes_another_branch_of_it_and_its_first_publication_does_not(store: Store) -> None:
    branch, _ = await add_project(store, make_project())
    async with store.transaction() as rows:
        lineage_id = await get_lineage_id(rows, branch)
        first = BranchLineage(branch_id=branch.id, position=0, lineage_id=lineage_id, from_at=NOON)
        await rows.lineages.replace_branch_lineages(branch.id, [first])
        assert not await rows.histories.was_restored_since(branch.id, NOON - HOUR)
        await rows.lineages.replace_branch_lineages(branch.id, [first, replace(first, from_at=NOON + HOUR)])
        assert await rows.histories.was_restored_since(branch.id, NOON)
        assert not await rows.histories.was_restored_since(branch.id, NOON + HOUR)


async def test_storage_is_what_roots_hold_children_wrote_and_history_and_snapshots_take(store: Store) -> None:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY)
    assert await read_storage(store, project.id) is None
    wrote_little = make_branch(
        project, parent_id=root.id, is_default=False, name="a", logical_size=2**41, written_bytes=7
    )
    wrote_much = make_branch(
        project, parent_id=root.id, is_default=False, name="b", logical_size=1000, written_bytes=2**42
    )
    unmeasured = make_branch(project, parent_id=root.id, is_default=False, name="c", written_bytes=3)
    deleted = make_branch(
        project, parent_id=root.id, is_default=False, name="d", logical_size=10**6, written_bytes=10**6, deleted_at=NOON
    )
    for branch in (wrote_little, wrote_much, unmeasured, deleted):
        await add_branch(store, branch)
    async with store.transaction() as rows:
        await rows.branches.save(replace(root, logical_size=2**40, written_bytes=5))
        for branch, size in ((root, 2**33), (wrote_much, 11)):
            await rows.histories.save_history_start_and_size(
                await get_lineage_id(rows, branch), began_at=None, began_lsn=None, history_bytes=size
            )
        snapshots_taken: tuple[tuple[int | None, datetime | None], ...] = ((13, None), (None, None), (10**6, NOON))
        for number, (own_bytes, gone) in enumerate(snapshots_taken):
            volume = VolumeId.new()
            await rows.lineages.add_volume(Volume(id=volume, project_id=project.id, created_at=NOON))
            await rows.snapshots.add(
                Snapshot(
                    id=SnapshotId.new(),
                    project_id=project.id,
                    branch_id=root.id,
                    volume_id=volume,
                    name=str(number),
                    state=SnapshotState.READY,
                    is_manual=True,
                    own_bytes=own_bytes,
                    created_at=NOON,
                    updated_at=NOON,
                    deleted_at=gone,
                )
            )
    storage = 2**40 + 7 + 1000 + 2**33 + 11 + 13
    assert await read_storage(store, project.id) == storage
    async with store.read() as rows:
        page = await rows.project_pages.page({project.org_id: None}, search="", limit=10, after=None)
    assert [row.storage_bytes for row in page.rows] == [storage]
