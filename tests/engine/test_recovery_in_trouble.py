"""Going back to a point when something is missing, is not what it should be, or is killed."""

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
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.port import EngineError, Readiness
from bough.ids import VolumeId
from bough.postgres import recovery, wal
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
from engine.test_killed_control import another_control
from support.engine_home import Compute, EngineHome, home_on_driver, kill_process, make_branch_spec, process_exists
from support.engine_walk import reserve_uid_range
from support.home_consistency import HomeConsistency
from support.platform import install_templates


def nothing_is_left_of(compute: Compute) -> bool:
    home, name = compute.home.settings.home, str(compute.spec.volume_id)
    return not [path for path in home.rglob(f"*{name}*") if "proc" not in path.parts]


def archive(compute: Compute) -> Path:
    return compute.home.engine._history._archives.folder(compute.spec.volume_id)


async def archived(compute: Compute, count: int) -> list[str]:
    """At least so many segments; Postgres archives when it comes to it."""
    while True:
        found = sorted(
            filter(wal.is_segment, compute.home.engine._history._archives.list_wal_files(compute.spec.volume_id))
        )
        if len(found) >= count:
            return found
        await asyncio.sleep(0.02)


async def test_a_gap_is_found_before_anything_is_started(home: EngineHome) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 1)
    await write_filler_wal(compute, 18)
    marks = await insert_numbers(compute, 1)
    await compute.suspend()
    segments = await archived(compute, 4)
    (archive(compute) / segments[2]).unlink()
    for path in (compute.data_folder / "pg_wal").glob(segments[2]):
        path.unlink()
    own = plan_branch(compute)
    with pytest.raises(EngineError, match=f"gap.*{segments[2]} is missing") as refused:
        await ensure_branch_at(own, compute, marks[0].points[0])
    assert not refused.value.transient
    assert nothing_is_left_of(own)


async def test_a_link_in_the_archive_leads_nowhere(home: EngineHome) -> None:
    """The archive is the tenant's: what is no file of WAL is as good as missing."""
    compute = await home.create_compute()
    await write_filler_wal(compute, 9)
    marks = await insert_numbers(compute, 1)
    await compute.suspend()
    segments = await archived(compute, 2)
    for name, aim in ((segments[0], "/etc/passwd"), (segments[1], "/dev/zero")):
        (archive(compute) / name).unlink()
        (archive(compute) / name).symlink_to(aim)
        for path in (compute.data_folder / "pg_wal").glob(name):
            path.unlink()
        own = plan_branch(compute)
        with pytest.raises(EngineError, match="gap"):
            await ensure_branch_at(own, compute, marks[0].points[0])
        assert nothing_is_left_of(own)


async def test_a_point_before_the_history_is_refused(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 1)
    record = compute.volume_folder / "volume.json"
    fields = json.loads(record.read_text())
    record.write_text(json.dumps({**fields, "first_segment": None}))  # as an earlier version left it
    own = plan_branch(compute)
    with pytest.raises(EngineError, match="does not go back to that point") as refused:
        await ensure_branch_at(own, compute, marks[0].points[0])
    assert not refused.value.transient
    await take_base_backup(compute)
    later = await insert_numbers(compute, 1)
    assert await read_numbers_at(compute, later[0].points[0]) == [1, 2]


async def test_a_base_that_a_wrong_clock_made_look_earlier_is_passed_over(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server stops at no commit that was made while its base was copied."""
    compute = await home.create_compute()
    loop, driver = asyncio.get_running_loop(), home.engine._volumes.driver
    clone, marks = driver.clone, await insert_numbers(compute, 1)

    def clone_while_it_is_written(source: Path, target: Path, owner: Identity) -> None:
        marks.extend(asyncio.run_coroutine_threadsafe(insert_numbers(compute, 2), loop).result())
        clone(source, target, owner)

    with monkeypatch.context() as slow:
        slow.setattr(driver, "clone", clone_while_it_is_written)
        base = await take_base_backup(compute)
    record = base.folder.read_record()
    assert record is not None
    base.folder.write_record(replace(record, at=marks[0].at.isoformat()))
    assert isinstance(get_recovery_start(compute, marks[1].points[1]), Base)
    assert await read_numbers_at(compute, marks[1].points[1]) == [1, 2]


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch, traversable_folder: Path) -> Iterator[Path]:
    """Servers that recover wait until this file is there."""
    gate, command = traversable_folder / "go", recovery.restore_command
    waits = (
        f"until test -e {gate} || ! test -d {traversable_folder}; do sleep 0.02; done"  # the folder goes with the test
    )
    monkeypatch.setattr(recovery, "restore_command", lambda spool: f"{waits}; {command(spool)}")
    yield gate
    gate.touch()


async def recovering(compute: Compute) -> int:
    """The pid of the server that recovers the volume."""
    while True:
        live = postmaster.find(compute.data_folder) if compute.data_folder.exists() else None
        if live is not None:
            with live:
                return live.pid
        await asyncio.sleep(0.01)


async def test_nobody_opens_it_before_it_is_whole(home: EngineHome, held_up: Path) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    await compute.suspend()
    own = plan_branch(compute)
    making = asyncio.ensure_future(ensure_branch_at(own, compute, marks[0].points[0]))
    await recovering(own)
    folder = VolumeFolder(own.volume_folder, own.volume_folder)
    known = folder.read_record()
    assert known is not None and known.pending
    assert await home.engine.read_wal_end(own.spec.volume_id) is None
    with pytest.raises(EngineError, match="still being") as refused:
        await home.engine._branch_volumes.create(
            replace(make_branch_spec(own.spec), volume_id=VolumeId.new(), parent=own.spec.volume_id),
            await home.engine._install_catalog.require_install(own.spec.install),
        )
    assert refused.value.transient
    with pytest.raises(EngineError, match="still being"):
        await home.engine._computes.ensure_running(
            own.spec, await home.engine._install_catalog.require_install(own.spec.install)
        )
    assert await compute.start() is Readiness.READY, "its parent is free"
    held_up.touch()
    origin = await making
    assert origin.lsn is not None and lsn.to_int(origin.lsn) <= lsn.to_int(marks[0].lsn)
    assert await own.start() is Readiness.READY
    assert await read_numbers(own) == [1]


async def test_the_server_that_recovers_may_be_killed(home: EngineHome, held_up: Path) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    own = plan_branch(compute)
    making = asyncio.ensure_future(ensure_branch_at(own, compute, marks[0].points[1]))
    await kill_process(await recovering(own))
    held_up.touch()
    await making
    assert await own.start() is Readiness.READY
    assert await read_numbers(own) == [1]


async def test_who_gives_up_leaves_nothing(home: EngineHome, held_up: Path) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    own = plan_branch(compute)
    making = asyncio.ensure_future(ensure_branch_at(own, compute, marks[0].points[1]))
    pid = await recovering(own)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert not process_exists(pid)
    assert nothing_is_left_of(own)


async def test_what_another_control_left_is_made_anew(
    home: EngineHome, held_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it had archived: the names are the same, and what is in them is not."""
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 3)
    own = plan_branch(compute)
    held_up.touch()
    with monkeypatch.context() as killed:
        killed.setattr("bough.engine.local.history.base_restore.finish_recovery", lambda *_: _be_killed())
        killed.setattr(home.engine._history._recovery, "drop_pending", _do_nothing)
        killed.setattr(home.engine._history._spools, "remove", _do_nothing)
        with pytest.raises(ControlKilled):
            await ensure_branch_at(own, compute, marks[1].points[0])
    assert list((home.settings.home / "spool").iterdir()) != []
    assert list(archive(own).iterdir()) != []
    await another_control(home)
    assert list((home.settings.home / "spool").iterdir()) == []
    await ensure_branch_at(own, compute, marks[0].points[0])
    assert await own.start() is Readiness.READY
    assert await read_numbers(own) == [1]
    later = await insert_numbers(own, 2)
    assert await read_numbers_at(own, later[0].points[0]) == [1, 2]


def _be_killed() -> None:
    raise ControlKilled


async def _do_nothing(*_: object) -> None:
    return


async def test_control_may_be_killed_at_any_moment(is_long_run: bool) -> None:
    dice, times = random.Random(20261117), 16 if is_long_run else 3
    with home_on_driver("plain", warm_pool=0, project_uids=reserve_uid_range()) as settings:
        install_templates(settings.home)
        machine, control = HomeConsistency(settings), ControlProcess(settings)
        parent = CallArguments(project="own-project", volume="vol-parent", endpoint="ep-parent")
        await control.start()
        await control.call("ensure_branch", parent)
        await control.call("ensure_running", parent)
        sockets = settings.sockets / "ep-parent"
        marks = await _write_by(sockets)
        for number in range(times):
            mark = dice.choice(marks)
            own = CallArguments(
                project="own-project",
                volume=f"vol-{number}",
                endpoint=f"ep-{number}",
                parent="vol-parent",
                lsn=mark.lsn,
            )
            making = asyncio.ensure_future(control.call("ensure_branch", own))
            await asyncio.sleep(dice.uniform(0, 0.35))
            control.kill()
            await control.wait()
            with suppress(ControlKilled):
                await making
            await control.start()
            await control.call("ensure_branch", own)
            await control.call("ensure_running", own)
            assert await _numbers_by(settings.sockets / own.endpoint) == numbers_up_to(mark)
            await control.call("ensure_suspended", own)
            await control.call("ensure_absent", own)
        await control.stop()
        assert "\n".join(machine.find_inconsistencies()) == ""


async def _write_by(sockets: Path) -> list[CommitMark]:
    db = await _connected(sockets)
    try:
        await db.execute("create table numbers (n int)")
        return [await insert_number(db) for _ in range(5)]
    finally:
        await db.close()


async def _numbers_by(sockets: Path) -> list[int]:
    db = await _connected(sockets)
    try:
        return [row["n"] for row in await db.fetch("select n from numbers order by n")]
    finally:
        await db.close()


async def _connected(sockets: Path) -> Any:
    return await asyncpg.connect(host=str(sockets), port=5432, user="neondb_owner", database="neondb", password="")
