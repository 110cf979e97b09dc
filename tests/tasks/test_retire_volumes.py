"""Volumes that no branch uses any more, and when they are removed completely."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from bough import clock
from bough.domain.branch import Branch, BranchState, Volume
from bough.domain.operation import OperationKind, OperationStatus
from bough.engine.port import Engine
from bough.ids import VolumeId
from bough.store.store import Store
from bough.tasks.retire_volumes import RetireVolumes
from support.postgres import PostgresServer
from support.stores import (
    EVERYDAY_BACKENDS,
    NOON,
    add_branch,
    add_lineage,
    add_project,
    make_branch,
    make_operation,
    make_project,
    open_store,
)
from tasks.fake_history_engine import FakeHistoryEngine

HOUR = timedelta(hours=1)


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Store]:
    async with open_store(request.param, tmp_path, postgres_server) as opened:
        yield opened


@pytest.fixture
def history_engine() -> FakeHistoryEngine:
    return FakeHistoryEngine()


@pytest.fixture
def task(store: Store, history_engine: FakeHistoryEngine) -> RetireVolumes:
    return RetireVolumes(store, cast(Engine, history_engine))


@pytest.fixture(autouse=True)
def freeze_clock_at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)


async def add_reset_branch(store: Store, *, ago: timedelta, retention: timedelta = HOUR) -> tuple[Branch, VolumeId]:
    """Adds a branch that was reset this long ago. No branch uses its former volume."""
    project = make_project(history_retention_seconds=round(retention.total_seconds()))
    branch, _ = await add_project(store, project, state=BranchState.READY)
    old = VolumeId.new()
    async with store.transaction() as rows:
        await rows.lineages.add_volume(Volume(id=old, project_id=project.id, created_at=NOON, retired_at=NOON - ago))
        [now] = await rows.lineages.list_ranges(branch.id)
        lineage = await add_lineage(rows, branch, old)
        before = replace(now.branch_lineage, lineage_id=lineage.id, until_at=NOON - ago)
        await rows.lineages.replace_branch_lineages(
            branch.id, [before, replace(now.branch_lineage, from_at=NOON - ago)]
        )
        await rows.lineages.set_history_start(old, NOON - 100 * HOUR, "0/1")
        await rows.lineages.set_history_start(branch.volume_id, NOON - ago, "0/1")
    return branch, old


async def list_volumes(store: Store, branch: Branch) -> list[VolumeId]:
    async with store.read() as rows:
        return [lineage_range.lineage.volume_id for lineage_range in await rows.lineages.list_ranges(branch.id)]


async def is_retired(store: Store, volume: VolumeId) -> bool:
    async with store.read() as rows:
        return volume in {each.id for each in await rows.lineages.list_retired_volumes()}


async def test_its_data_goes_at_once_and_its_history_when_nobody_can_go_back_to_it(
    store: Store, task: RetireVolumes, history_engine: FakeHistoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch, old = await add_reset_branch(store, ago=HOUR / 2)
    assert await task.run() == ""
    await task.run()
    assert history_engine.calls == [("retire", old)]
    assert await list_volumes(store, branch) == [old, branch.volume_id]
    monkeypatch.setattr(clock, "now", lambda: NOON + HOUR)
    assert await task.run() == "removed the history of 1 unused volumes"
    assert history_engine.calls == [("retire", old), ("ensure_absent", old)]
    assert await list_volumes(store, branch) == [branch.volume_id]
    assert not await is_retired(store, old)
    async with store.read() as rows:
        assert await rows.lineages.get_by_volume(old) is None


async def test_it_stays_while_another_branch_can_go_back_to_it(
    store: Store, task: RetireVolumes, history_engine: FakeHistoryEngine
) -> None:
    branch, old = await add_reset_branch(store, ago=2 * HOUR)
    other = make_branch(make_project(id=branch.project_id), name="other", is_default=False, state=BranchState.READY)
    await add_branch(store, other)
    async with store.transaction() as rows:
        [before, _] = await rows.lineages.list_ranges(branch.id)
        [now] = await rows.lineages.list_ranges(other.id)
        branch_lineage = replace(before.branch_lineage, branch_id=other.id, position=0)
        await rows.lineages.replace_branch_lineages(
            other.id, [branch_lineage, replace(now.branch_lineage, from_at=NOON)]
        )
    await task.run()
    assert history_engine.calls == [("retire", old)]
    assert await list_volumes(store, other) == [old, other.volume_id]


async def test_with_no_window_nothing_stays(
    store: Store, task: RetireVolumes, history_engine: FakeHistoryEngine
) -> None:
    _, old = await add_reset_branch(store, ago=timedelta(0), retention=timedelta(0))
    await task.run()
    assert history_engine.calls == [("retire", old), ("ensure_absent", old)]
    assert not await is_retired(store, old)


async def test_branches_that_are_gone_for_good_hold_nothing(
    store: Store, task: RetireVolumes, history_engine: FakeHistoryEngine
) -> None:
    branch, old = await add_reset_branch(store, ago=HOUR / 2)
    async with store.transaction() as rows:
        await rows.branches.save(replace(branch, deleted_at=NOON, recoverable_until=NOON + HOUR))
    await task.run()
    assert await is_retired(store, old)
    async with store.transaction() as rows:
        await rows.branches.save(replace(branch, deleted_at=NOON))
    await task.run()
    assert history_engine.calls == [("retire", old), ("ensure_absent", old)]
    assert not await is_retired(store, old)


async def test_what_open_work_was_told_to_go_back_to_is_left_alone(
    store: Store, task: RetireVolumes, history_engine: FakeHistoryEngine
) -> None:
    branch, old = await add_reset_branch(store, ago=2 * HOUR)
    operation = make_operation(branch.project_id, kind=OperationKind.CREATE_BRANCH, parameters={"volume_id": old})
    async with store.transaction() as rows:
        await rows.operations.add(operation)
    await task.run()
    assert history_engine.calls == []
    async with store.transaction() as rows:
        await rows.operations.save(replace(operation, status=OperationStatus.FINISHED, ended_at=NOON))
    await task.run()
    assert not await is_retired(store, old)


async def test_what_another_history_stands_on_stays_and_holds_up_nobody(
    store: Store, task: RetireVolumes, history_engine: FakeHistoryEngine
) -> None:
    _, first = await add_reset_branch(store, ago=2 * HOUR)
    _, second = await add_reset_branch(store, ago=1.5 * HOUR)
    history_engine.errors[first] = "The history of another volume stands on it."
    await task.run()
    assert await is_retired(store, first)
    assert not await is_retired(store, second)
    del history_engine.errors[first]
    await task.run()
    assert not await is_retired(store, first)


async def test_a_deleted_project_is_kept_as_it_is(
    store: Store, task: RetireVolumes, history_engine: FakeHistoryEngine
) -> None:
    branch, _ = await add_reset_branch(store, ago=2 * HOUR)
    async with store.transaction() as rows:
        project = await rows.projects.get(branch.project_id)
        assert project is not None
        await rows.projects.save(replace(project, deleted_at=NOON, recoverable_until=NOON + HOUR))
    await task.run()
    assert history_engine.calls == []
