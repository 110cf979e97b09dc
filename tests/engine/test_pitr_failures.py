"""Point-in-time recovery when files are missing or replaced, or processes are killed."""

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bough.domain import lsn
from bough.engine.local.computes import postmaster
from bough.engine.local.history.bases import Base
from bough.engine.local.history.pitr import PointInTimeRecovery
from bough.engine.local.history.spool_builder import SpoolBuilder
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.port import EngineError, Readiness
from bough.ids import VolumeId
from bough.postgres import recovery
from engine.control_child import CallArguments
from engine.control_process import ControlKilled, ControlProcess
from engine.point_in_time import (
    CommitMark,
    ensure_branch_at,
    get_recovery_start,
    insert_number,
    insert_numbers,
    numbers_up_to,
    plan_branch,
    read_numbers,
    read_numbers_at,
    take_base_backup,
    write_filler_wal,
)
from support.engine_home import Compute, EngineHome, home_on_driver, kill_process, make_branch_spec, process_exists
from support.folders import reserve_uid_range
from support.history import archive_folder, list_archived_segments
from support.home_consistency import HomeConsistency
from support.platform import install_templates


def has_no_files(compute: Compute) -> bool:
    home, name = compute.home.settings.home, str(compute.spec.volume_id)
    return not [path for path in home.rglob(f"*{name}*") if "proc" not in path.parts]


async def wait_for_archived_segments(compute: Compute, count: int) -> list[str]:
    """Wait until at least `count` segments are archived."""
    while True:
        segments = list_archived_segments(compute)
        if len(segments) >= count:
            return segments
        await asyncio.sleep(0.02)


async def test_a_gap_is_found_before_anything_is_started(home: EngineHome) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 1)
    await write_filler_wal(compute, 18)
    marks = await insert_numbers(compute, 1)
    await compute.suspend()
    segments = await wait_for_archived_segments(compute, 4)
    (archive_folder(compute) / segments[2]).unlink()
    for path in (compute.data_folder / "pg_wal").glob(segments[2]):
        path.unlink()
    branch = plan_branch(compute)
    with pytest.raises(EngineError, match=f"gap.*{segments[2]} is missing") as refused:
        await ensure_branch_at(branch, compute, marks[0].points[0])
    assert not refused.value.transient
    assert has_no_files(branch)


async def test_a_link_in_the_archive_leads_nowhere(home: EngineHome) -> None:
    """The archive belongs to the tenant: anything but a WAL file counts as missing."""
    compute = await home.create_compute()
    await write_filler_wal(compute, 9)
    marks = await insert_numbers(compute, 1)
    await compute.suspend()
    segments = await wait_for_archived_segments(compute, 2)
    for name, link_target in ((segments[0], "/etc/passwd"), (segments[1], "/dev/zero")):
        (archive_folder(compute) / name).unlink()
        (archive_folder(compute) / name).symlink_to(link_target)
        for path in (compute.data_folder / "pg_wal").glob(name):
            path.unlink()
        branch = plan_branch(compute)
        with pytest.raises(EngineError, match="gap"):
            await ensure_branch_at(branch, compute, marks[0].points[0])
        assert has_no_files(branch)


async def test_a_point_before_the_history_is_refused(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 1)
    record = compute.volume_folder / "volume.json"
    fields = json.loads(record.read_text())
    record.write_text(json.dumps({**fields, "first_segment": None}))  # as in a record of an earlier version
    branch = plan_branch(compute)
    with pytest.raises(EngineError, match="does not go back to that point") as refused:
        await ensure_branch_at(branch, compute, marks[0].points[0])
    assert not refused.value.transient
    await take_base_backup(compute)
    later = await insert_numbers(compute, 1)
    assert await read_numbers_at(compute, later[0].points[0]) == [1, 2]


async def test_a_base_that_a_wrong_clock_made_look_earlier_is_passed_over(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server cannot stop at a commit that was made while its base was copied."""
    compute = await home.create_compute()
    loop, driver = asyncio.get_running_loop(), home.engine._components.volumes.driver
    clone, marks = driver.clone, await insert_numbers(compute, 1)

    def clone_during_writes(source: Path, target: Path, owner: Identity) -> None:
        marks.extend(asyncio.run_coroutine_threadsafe(insert_numbers(compute, 2), loop).result())
        clone(source, target, owner)

    with monkeypatch.context() as slow:
        slow.setattr(driver, "clone", clone_during_writes)
        base = await take_base_backup(compute)
    record = base.folder.read_record()
    assert record is not None
    base.folder.write_record(replace(record, origin_at=marks[0].at.isoformat()))
    assert isinstance(get_recovery_start(compute, marks[1].points[1]), Base)
    assert await read_numbers_at(compute, marks[1].points[1]) == [1, 2]


@pytest.fixture
def recovery_gate(monkeypatch: pytest.MonkeyPatch, traversable_folder: Path) -> Iterator[Path]:
    """Servers that recover wait until this file exists."""
    gate, command = traversable_folder / "go", recovery.restore_command
    # The folder is removed with the test.
    waits = f"until test -e {gate} || ! test -d {traversable_folder}; do sleep 0.02; done"
    monkeypatch.setattr(recovery, "restore_command", lambda spool: f"{waits}; {command(spool)}")
    yield gate
    gate.touch()


async def wait_for_recovery(compute: Compute) -> int:
    """Wait for the server that recovers the volume; returns its pid."""
    while True:
        server = postmaster.find(compute.data_folder) if compute.data_folder.exists() else None
        if server is not None:
            with server:
                return server.pid
        await asyncio.sleep(0.01)


async def test_nobody_opens_it_before_it_is_whole(home: EngineHome, recovery_gate: Path) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    await compute.suspend()
    branch = plan_branch(compute)
    creating = asyncio.ensure_future(ensure_branch_at(branch, compute, marks[0].points[0]))
    await wait_for_recovery(branch)
    folder = VolumeFolder(branch.volume_folder, branch.volume_folder)
    record = folder.read_record()
    assert record is not None and record.is_pending
    assert await home.engine.read_wal_end(branch.spec.volume_id) is None
    with pytest.raises(EngineError, match="still being") as refused:
        await home.engine._components.branch_volumes.create(
            replace(make_branch_spec(branch.spec), volume_id=VolumeId.new(), source_volume_id=branch.spec.volume_id),
            await home.engine._components.install_catalog.require_install(branch.spec.install),
        )
    assert refused.value.transient
    with pytest.raises(EngineError, match="still being"):
        await home.engine._components.computes.ensure_running(
            branch.spec, await home.engine._components.install_catalog.require_install(branch.spec.install)
        )
    assert await compute.start() is Readiness.READY, "the parent is not locked"
    recovery_gate.touch()
    origin = await creating
    assert origin.lsn is not None and lsn.to_int(origin.lsn) <= lsn.to_int(marks[0].lsn)
    assert await branch.start() is Readiness.READY
    assert await read_numbers(branch) == [1]


async def test_the_server_that_recovers_may_be_killed(home: EngineHome, recovery_gate: Path) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    branch = plan_branch(compute)
    creating = asyncio.ensure_future(ensure_branch_at(branch, compute, marks[0].points[1]))
    await kill_process(await wait_for_recovery(branch))
    recovery_gate.touch()
    await creating
    assert await branch.start() is Readiness.READY
    assert await read_numbers(branch) == [1]


async def test_who_gives_up_leaves_nothing(home: EngineHome, recovery_gate: Path) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    branch = plan_branch(compute)
    creating = asyncio.ensure_future(ensure_branch_at(branch, compute, marks[0].points[1]))
    pid = await wait_for_recovery(branch)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert not process_exists(pid)
    assert has_no_files(branch)


async def test_what_another_control_left_is_made_anew(
    home: EngineHome, recovery_gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its archived WAL is also removed: the file names are the same, but not their contents."""
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 3)
    branch = plan_branch(compute)
    recovery_gate.touch()
    with monkeypatch.context() as killed:
        killed.setattr("bough.engine.local.history.base_restore.finish_recovery", lambda *_: _be_killed())
        killed.setattr(PointInTimeRecovery, "drop_pending", _do_nothing)
        killed.setattr(SpoolBuilder, "remove", _do_nothing)
        with pytest.raises(ControlKilled):
            await ensure_branch_at(branch, compute, marks[1].points[0])
    assert list((home.settings.home / "spool").iterdir()) != []
    assert list(archive_folder(branch).iterdir()) != []
    await home.restart_control()
    assert list((home.settings.home / "spool").iterdir()) == []
    await ensure_branch_at(branch, compute, marks[0].points[0])
    assert await branch.start() is Readiness.READY
    assert await read_numbers(branch) == [1]
    later = await insert_numbers(branch, 2)
    assert await read_numbers_at(branch, later[0].points[0]) == [1, 2]


def _be_killed() -> None:
    raise ControlKilled


async def _do_nothing(*_: object) -> None:
    return


async def test_control_may_be_killed_at_any_moment(is_long_run: bool) -> None:
    rng, times = random.Random(20261117), 16 if is_long_run else 3
    with home_on_driver("plain", warm_pool=0, project_uids=reserve_uid_range()) as settings:
        install_templates(settings.home)
        consistency, control = HomeConsistency(settings), ControlProcess(settings)
        parent = CallArguments(project="own-project", volume="vol-parent", endpoint="ep-parent")
        await control.start()
        await control.call("ensure_branch", parent)
        await control.call("ensure_running", parent)
        sockets = settings.sockets / "ep-parent"
        marks = await _insert_numbers(sockets)
        for number in range(times):
            mark = rng.choice(marks)
            branch = CallArguments(
                project="own-project",
                volume=f"vol-{number}",
                endpoint=f"ep-{number}",
                parent="vol-parent",
                lsn=mark.lsn,
            )
            creating = asyncio.ensure_future(control.call("ensure_branch", branch))
            await asyncio.sleep(rng.uniform(0, 0.35))
            control.kill()
            await control.wait()
            with suppress(ControlKilled):
                await creating
            await control.start()
            await control.call("ensure_branch", branch)
            await control.call("ensure_running", branch)
            assert await _read_numbers(settings.sockets / branch.endpoint) == numbers_up_to(mark)
            await control.call("ensure_suspended", branch)
            await control.call("ensure_absent", branch)
        await control.stop()
        assert "\n".join(consistency.find_inconsistencies()) == ""


async def _insert_numbers(sockets: Path) -> list[CommitMark]:
    db = await _connect(sockets)
    try:
        await db.execute("create table numbers (n int)")
        return [await insert_number(db) for _ in range(5)]
    finally:
        await db.close()


async def _read_numbers(sockets: Path) -> list[int]:
    db = await _connect(sockets)
    try:
        return [row["n"] for row in await db.fetch("select n from numbers order by n")]
    finally:
        await db.close()


async def _connect(sockets: Path) -> Any:
    return await asyncpg.connect(host=str(sockets), port=5432, user="neondb_owner", database="neondb", password="")
