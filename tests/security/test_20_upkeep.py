"""Row 20: the work of standing tasks grows with the number of computes, not with its square; idle ones cost nothing."""

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

FEW, MANY = 20, 200  # computes, everyday and in the long tier; each test also takes twice as many
LINEAR = 2.2  # times the work for twice the computes
OVERHEAD = {"opened_count": 10, "listed_entries": 60, "sql_steps": 40}  # what does not depend on their number
BURN = "select count(*) from generate_series(1, 12000000)"  # takes more processor time than upkeep ignores
TICK = 0.06  # seconds, in which a file system's clock advances
LATER = 7200.0  # seconds: everything is due again


class Hours:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._past = 0.0
        monotonic = clock.monotonic
        monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + self._past)
        monkeypatch.setattr(maintain_history, "PAUSE_FACTOR", 0.0, raising=False)

    def pass_by(self) -> None:
        self._past += LATER


@pytest.fixture
async def many(platform: Platform) -> AsyncIterator[IdleBranches]:
    async with open_idle_branches(platform) as made:
        yield made


@pytest.fixture
def few(is_long_run: bool) -> int:
    return MANY if is_long_run else FEW


def tasks_of(platform: Platform) -> list[Task]:
    return [task for loop in platform.inner.loops for task in loop.tasks]


def name_of(task: Task) -> str:
    return type(task).__name__


async def rounds(platform: Platform, hours: Hours) -> dict[str, WorkCount]:
    """What each task does in a round in which everything is due."""
    found = {}
    for task in tasks_of(platform):
        hours.pass_by()
        with count_work(cast(SqliteStore, platform.store)) as work:
            await task.run()
        found[name_of(task)] = work
    return found


async def test_no_task_does_quadratic_work(many: IdleBranches, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is added later is among them."""
    hours = Hours(monkeypatch)
    await many.create_up_to(few)
    await rounds(many.platform, hours)  # what is done once for each compute is done
    before = await rounds(many.platform, hours)
    await many.create_up_to(2 * few)
    await rounds(many.platform, hours)
    after = await rounds(many.platform, hours)
    assert len(after) >= 28
    grown = {
        f"{name}: {kind} {getattr(before[name], kind)} → {getattr(work, kind)}"
        for name, work in after.items()
        for kind in OVERHEAD
        if getattr(work, kind) > LINEAR * getattr(before[name], kind) + OVERHEAD[kind]
    }
    assert not grown


async def test_a_round_of_history_reads_no_run_file_and_lists_no_folder_for_each_volume(
    many: IdleBranches, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = Hours(monkeypatch)
    await many.create_up_to(few)
    await rounds(many.platform, hours)
    work = (await rounds(many.platform, hours))["MaintainHistory"]
    runs, volumes = many.platform.settings.home / "run", many.platform.settings.home / "volumes"
    assert not work.opened_in(str(runs))
    assert work.listed_entries < 5 * few  # each volume's own folders, and not all volumes for each
    most_read, times = work.opened_in(str(volumes)).most_common(1)[0]
    assert times <= 10 or most_read.startswith(str(volumes / many.root.volume_id))


async def test_liveness_of_all_computes_is_one_question(
    many: IdleBranches, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first look nothing is read of a compute that goes on; one that ends is noticed at once."""
    await many.create_up_to(few)
    engine = many.platform.engine
    assert len((await engine.observe()).running_endpoints) == few
    reads: list[Path] = []
    read_text = Path.read_text

    def counting(path: Path, *arguments: Any, **named: Any) -> str:
        reads.append(path)
        return read_text(path, *arguments, **named)

    monkeypatch.setattr(Path, "read_text", counting)
    with count_work(cast(SqliteStore, many.platform.store)) as work:
        assert len((await engine.observe()).running_endpoints) == few
    assert work.opened_count == 0
    assert not [path for path in reads if path.is_relative_to("/proc")]
    many.processes[0].kill()
    many.processes[0].wait()
    assert len((await engine.observe()).running_endpoints) == few - 1


async def test_idle_computes_that_were_looked_at_are_left_alone(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real computes: once each was looked at, a round opens no session in any of them."""
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
    """A subscription, or a worker, writes without anybody at the gateway."""
    quiet, busy = await platform.create_ready_project(), await platform.create_ready_project()
    task = next(task for task in tasks_of(platform) if isinstance(task, MeasureBranches))
    await task.run()
    before = await sizes_of(platform, quiet, busy)
    for made in (quiet, busy):
        await platform.query(made, "create table kept as select 1 as one")
    await platform.query(busy, BURN)
    await task.run()
    after = await sizes_of(platform, quiet, busy)
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]


async def test_one_that_a_client_used_is_measured(platform: Platform) -> None:
    made = await platform.create_ready_project()
    task = next(task for task in tasks_of(platform) if isinstance(task, MeasureBranches))
    await task.run()
    before = await sizes_of(platform, made)
    await platform.query(made, "create table kept as select 1 as one")
    platform.services.activity.mark_requested(EndpointId(made["endpoints"][0]["id"]))
    await task.run()
    assert await sizes_of(platform, made) != before


async def sizes_of(platform: Platform, *projects: dict[str, Any]) -> list[int | None]:
    async with platform.store.read() as rows:
        found = [
            await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(made["branch"]["id"]))
            for made in projects
        ]
    return [branch.logical_size for branch in found if branch is not None]


def test_what_another_process_changed_is_seen(tmp_path: Path) -> None:
    """`bough down` and the doctor work on the same files; two indexes stand for two processes."""
    ours, theirs = ComputeRuns(tmp_path), ComputeRuns(tmp_path)
    first, second = (run_on(VolumeId.new()) for _ in range(2))
    theirs.put(first)
    assert (ours.list_all(), ours.list_on_volume(first.volume_id)) == ([first], [first])
    ours.put(second)
    assert theirs.list_on_volume(second.volume_id) == [second]
    time.sleep(TICK)  # no two processes write at the same moment: control is the only one while it runs
    moved = replace(second, volume_id=first.volume_id)
    theirs.put(moved)
    assert (ours.get(second.endpoint_id), ours.list_on_volume(second.volume_id)) == (moved, [])
    theirs.remove(first.endpoint_id)
    assert (ours.list_all(), ours.list_on_volume(first.volume_id)) == ([moved], [moved])
    (tmp_path / f"{moved.endpoint_id}.json").write_text("")  # as a power cut may leave it
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


def run_on(volume: VolumeId) -> ComputeRun:
    return ComputeRun(
        endpoint_id=EndpointId.new(),
        project_id=ProjectId.new(),
        volume_id=volume,
        install="embedded-17",
        settings="",
        pid=None,
    )


async def test_a_project_with_many_branches_does_not_delay_another() -> None:
    crowded = [("crowded", number) for number in range(1000)]
    ordered = interleave_by_project([*crowded, ("other", 0), ("third", 0), ("third", 1)], lambda each: each[0])
    assert ordered[:4] == [("crowded", 0), ("other", 0), ("third", 0), ("crowded", 1)]
    assert len(ordered) == 1003
    assert [each for each in ordered if each[0] == "crowded"] == crowded
