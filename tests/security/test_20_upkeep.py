"""Rule 20: the work of periodic tasks grows linearly with the number of computes; idle computes cost nothing."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bough import clock
from bough.engine.local.computes import compute_connection, session
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns
from bough.engine.local.volumes.volume_names import VolumeNames, base_prefix
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.store.sqlite import SqliteStore
from bough.tasks import maintain_history
from bough.tasks.loop import Task
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.round_robin import interleave_by_project
from security.idle_branches import NEVER_SUSPEND, IdleBranches, open_idle_branches
from security.work_counter import WorkCount, count_work
from support.platform import Platform

NORMAL_COUNT, LONG_RUN_COUNT = 20, 200  # computes in normal and long runs; the tests also use twice as many
MAX_FACTOR = 2.2  # factor of work allowed for twice the computes
OVERHEAD = {"opened_count": 10, "listed_entries": 60, "sql_steps": 40}  # independent of the number of computes
BURN = "select count(*) from generate_series(1, 12000000)"  # takes more CPU time than the task ignores
TICK = 0.06  # seconds after which the timestamps of a file system differ
LATER = 7200.0  # seconds after which all work is due again


class FakeMonotonicClock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._offset = 0.0
        monotonic = clock.monotonic
        monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + self._offset)
        monkeypatch.setattr(maintain_history, "PAUSE_FACTOR", 0.0, raising=False)

    def advance(self) -> None:
        self._offset += LATER


@pytest.fixture
async def branches(platform: Platform) -> AsyncIterator[IdleBranches]:
    async with open_idle_branches(platform) as opened:
        yield opened


@pytest.fixture
def compute_count(is_long_run: bool) -> int:
    return LONG_RUN_COUNT if is_long_run else NORMAL_COUNT


def list_tasks(platform: Platform) -> list[Task]:
    return [task for loop in platform.inner.loops for task in loop.tasks]


def task_name(task: Task) -> str:
    return type(task).__name__


async def run_all_tasks(platform: Platform, fake_clock: FakeMonotonicClock) -> dict[str, WorkCount]:
    """Runs each task once with all work due, and returns the work by task name."""
    work_by_task = {}
    for task in list_tasks(platform):
        fake_clock.advance()
        with count_work(cast(SqliteStore, platform.store)) as work:
            await task.run()
        work_by_task[task_name(task)] = work
    return work_by_task


async def test_no_task_does_quadratic_work(
    branches: IdleBranches, compute_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test covers all tasks, including those added later."""
    fake_clock = FakeMonotonicClock(monkeypatch)
    await branches.create_up_to(compute_count)
    await run_all_tasks(branches.platform, fake_clock)  # work that is done once per compute
    before = await run_all_tasks(branches.platform, fake_clock)
    await branches.create_up_to(2 * compute_count)
    await run_all_tasks(branches.platform, fake_clock)
    after = await run_all_tasks(branches.platform, fake_clock)
    assert len(after) >= 28
    excess = {
        f"{name}: {kind} {getattr(before[name], kind)} → {getattr(work, kind)}"
        for name, work in after.items()
        for kind in OVERHEAD
        if getattr(work, kind) > MAX_FACTOR * getattr(before[name], kind) + OVERHEAD[kind]
    }
    assert not excess


async def test_a_round_of_history_reads_no_run_file_and_lists_no_folder_for_each_volume(
    branches: IdleBranches, compute_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_clock = FakeMonotonicClock(monkeypatch)
    await branches.create_up_to(compute_count)
    await run_all_tasks(branches.platform, fake_clock)
    work = (await run_all_tasks(branches.platform, fake_clock))["MaintainHistory"]
    runs, volumes = branches.platform.settings.home / "run", branches.platform.settings.home / "volumes"
    assert not work.opened_in(str(runs))
    assert work.listed_entries < 5 * compute_count  # only the volume's own folders, not all volumes for each volume
    most_read, times = work.opened_in(str(volumes)).most_common(1)[0]
    assert times <= 10 or most_read.startswith(str(volumes / branches.root.volume_id))


async def test_liveness_of_all_computes_is_one_question(
    branches: IdleBranches, compute_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first pass no file of a running compute is read, and the end of a compute is noticed at once."""
    await branches.create_up_to(compute_count)
    engine = branches.platform.engine
    assert len((await engine.observe()).running_endpoints) == compute_count
    reads: list[Path] = []
    read_text = Path.read_text

    def count_read_text(path: Path, *args: Any, **kwargs: Any) -> str:
        reads.append(path)
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", count_read_text)
    with count_work(cast(SqliteStore, branches.platform.store)) as work:
        assert len((await engine.observe()).running_endpoints) == compute_count
    assert work.opened_count == 0
    assert not [path for path in reads if path.is_relative_to("/proc")]
    branches.processes[0].kill()
    branches.processes[0].wait()
    assert len((await engine.observe()).running_endpoints) == compute_count - 1


async def test_idle_computes_that_were_looked_at_are_left_alone(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses real computes: after each was inspected once, a pass opens no session."""
    for _ in range(3):
        await platform.create_ready_project(default_endpoint_settings={"suspend_timeout_seconds": NEVER_SUSPEND})
    await platform.run_tasks()
    await platform.run_tasks()
    opened: list[str] = []
    connect = compute_connection.connect

    async def count_connect(loop: Any, sockets: Path, *args: Any) -> Any:
        opened.append(sockets.name)
        return await connect(loop, sockets, *args)

    monkeypatch.setattr(session, "connect", count_connect)
    for _ in range(3):
        await platform.run_tasks()
    assert not opened


async def test_one_that_works_without_a_client_is_measured(platform: Platform) -> None:
    """A subscription or a background worker writes without a client at the gateway."""
    quiet, busy = await platform.create_ready_project(), await platform.create_ready_project()
    task = next(task for task in list_tasks(platform) if isinstance(task, MeasureBranches))
    await task.run()
    before = await read_sizes(platform, quiet, busy)
    for created in (quiet, busy):
        await platform.query(created, "create table kept as select 1 as one")
    await platform.query(busy, BURN)
    await task.run()
    after = await read_sizes(platform, quiet, busy)
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]


async def test_one_that_a_client_used_is_measured(platform: Platform) -> None:
    created = await platform.create_ready_project()
    task = next(task for task in list_tasks(platform) if isinstance(task, MeasureBranches))
    await task.run()
    before = await read_sizes(platform, created)
    await platform.query(created, "create table kept as select 1 as one")
    platform.services.activity.mark_requested(EndpointId(created["endpoints"][0]["id"]))
    await task.run()
    assert await read_sizes(platform, created) != before


async def read_sizes(platform: Platform, *projects: dict[str, Any]) -> list[int | None]:
    async with platform.store.read() as rows:
        branches = [
            await rows.branches.get(ProjectId(created["project"]["id"]), BranchId(created["branch"]["id"]))
            for created in projects
        ]
    return [branch.logical_size for branch in branches if branch is not None]


def test_what_another_process_changed_is_seen(tmp_path: Path) -> None:
    """`bough down` and `bough doctor` use the same files; two indexes represent two processes."""
    index, other_index = ComputeRuns(tmp_path), ComputeRuns(tmp_path)
    first, second = (make_run(VolumeId.new()) for _ in range(2))
    other_index.put(first)
    assert (index.list_all(), index.list_on_volume(first.volume_id)) == ([first], [first])
    index.put(second)
    assert other_index.list_on_volume(second.volume_id) == [second]
    time.sleep(TICK)  # processes never write at the same time: while control runs, only it writes
    moved = replace(second, volume_id=first.volume_id)
    other_index.put(moved)
    assert (index.get(second.endpoint_id), index.list_on_volume(second.volume_id)) == (moved, [])
    other_index.remove(first.endpoint_id)
    assert (index.list_all(), index.list_on_volume(first.volume_id)) == ([moved], [moved])
    (tmp_path / f"{moved.endpoint_id}.json").write_text("")  # as after a power failure
    (tmp_path / "other.json").touch()
    assert ComputeRuns(tmp_path).list_all() == []


def test_volumes_and_bases_that_come_and_go_are_seen(tmp_path: Path) -> None:
    names, volume = VolumeNames(tmp_path), VolumeId.new()
    assert names.list_all() == frozenset()
    base = VolumeId(f"{base_prefix(volume)}abcd")
    for name in (volume, base):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.making").mkdir()
    assert (names.list_all(), names.list_bases(volume)) == (frozenset({volume, base}), [base])
    (tmp_path / base).rmdir()
    assert names.list_all() == frozenset({volume})
    assert not names.list_bases(volume)


def make_run(volume: VolumeId) -> ComputeRun:
    return ComputeRun(
        endpoint_id=EndpointId.new(),
        project_id=ProjectId.new(),
        volume_id=volume,
        install="embedded-17",
        settings_digest="",
        pid=None,
    )


async def test_a_project_with_many_branches_does_not_delay_another() -> None:
    crowded = [("crowded", number) for number in range(1000)]
    ordered = interleave_by_project([*crowded, ("other", 0), ("third", 0), ("third", 1)], lambda item: item[0])
    assert ordered[:4] == [("crowded", 0), ("other", 0), ("third", 0), ("crowded", 1)]
    assert len(ordered) == 1003
    assert [item for item in ordered if item[0] == "crowded"] == crowded
