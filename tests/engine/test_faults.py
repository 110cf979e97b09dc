"""Failures are reported in one sentence, the rest keeps working, and repaired data has every commit."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from bough.engine.local.computes.compute_log import START_MARKER, read_start_error
from bough.engine.local.engine import LocalEngine
from bough.engine.port import EngineError, Readiness
from engine.child_process import run_module
from support.engine_home import Compute, EngineHome, temporary_home
from support.requirements import require_root


def truncate(path: Path) -> None:
    os.truncate(path, 100)


def overwrite(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def give_to_root(path: Path) -> None:
    os.chown(path, 0, 0)


def find_last_segment(data: Path) -> Path:
    """Return the WAL that a server reads first after a crash soon after its start."""
    return max(path for path in (data / "pg_wal").iterdir() if len(path.name) == 24 and _is_written(path))


def _is_written(path: Path) -> bool:
    return any(path.read_bytes()[:4096])


BROKEN: dict[str, tuple[str | None, Callable[[Path], object], str]] = {
    "a control file that is cut off": ("global/pg_control", truncate, "pg_control"),
    "a control file of nonsense": ("global/pg_control", overwrite, "incompatible"),
    "WAL of nonsense": (None, overwrite, "checkpoint record|magic number"),
    "no version": ("PG_VERSION", Path.unlink, "not a valid data directory"),
    "a file of another user": ("global/pg_control", give_to_root, "Permission denied"),
    "a folder of another user": ("", give_to_root, "root"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_broken_data_is_told_and_mended_data_has_everything(home: EngineHome, what: str, tmp_path: Path) -> None:
    relative, break_it, sentence = BROKEN[what]
    if break_it is give_to_root:
        require_root()
    neighbour, compute = await home.create_compute(), await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    await compute.kill()
    place = find_last_segment(compute.data_folder) if relative is None else compute.data_folder / relative
    restore = copy_aside(place, tmp_path / "whole")
    break_it(place)

    for _ in range(2):
        with pytest.raises(EngineError, match=f"(?s)could not start: .*({sentence})") as refused:
            await compute.start()
        assert not refused.value.transient, "retrying does not help"
        assert str(home.settings.home) not in refused.value.public_message
        assert check_removed(compute)
        assert await neighbour.fetch_value("select 1") == 1

    restore()
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_a_volume_whose_record_is_broken_keeps_nobody_else_from_anything(home: EngineHome) -> None:
    neighbour, compute = await home.create_compute(), await home.create_compute()
    await compute.suspend()
    record = compute.volume_folder / "volume.json"
    whole = record.read_bytes()
    record.write_text("{")
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()

    for verb in (compute.start, partial(home.create_child, compute)):
        with pytest.raises(EngineError, match=r"record volume\.json .* is broken") as refused:
            await verb()
        assert not refused.value.transient
    assert await neighbour.fetch_value("select 1") == 1
    await neighbour.suspend()
    await neighbour.delete()
    assert compute.spec.volume_id in (await home.engine.observe()).volumes

    record.write_bytes(whole)
    assert await compute.start() is Readiness.READY


def copy_aside(place: Path, copy: Path) -> Callable[[], None]:
    """Return a function that restores the current files and owners."""
    subprocess.run(["cp", "-a", place, copy], check=True)

    def restore() -> None:
        if place.is_dir():
            os.chown(place, copy.stat().st_uid, copy.stat().st_gid)
        subprocess.run(["cp", "-a", "-T", copy, place], check=True)

    return restore


def check_removed(compute: Compute) -> bool:
    settings, name = compute.home.settings, compute.spec.endpoint_id
    return not (settings.home / "run" / f"{name}.json").exists() and not (settings.sockets / name).exists()


async def test_a_killed_session_costs_the_others_a_moment_and_nothing_else(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    pid = compute.pid
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        async with compute.connect() as db:
            os.kill(await db.fetchval("select pg_backend_pid()"), signal.SIGKILL)
            while True:
                await db.execute("select 1")
    assert compute.spec.endpoint_id in (await home.engine.observe()).running_endpoints
    assert await compute.start() is Readiness.READY
    assert await read_rows_after_recovery(compute) == 1000
    assert compute.pid == pid


async def read_rows_after_recovery(compute: Compute) -> int:
    """Retry while it accepts no connection or loses one."""
    while True:
        try:
            return int(await compute.fetch_value("select count(*) from kept"))
        except (asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError, OSError, AssertionError):
            await asyncio.sleep(0.01)


async def test_one_that_is_told_to_stop_while_it_recovers_does(home: EngineHome) -> None:
    """Postgres may then wait for ever for a process that it did not signal."""
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    for pause in range(6):
        pid = compute.pid
        with suppress(OSError):
            async with compute.connect() as db:
                os.kill(await db.fetchval("select pg_backend_pid()"), signal.SIGKILL)
        await asyncio.sleep(0.012 + pause / 500)
        await compute.suspend()
        assert not Path(f"/proc/{pid}").exists()
        assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


def test_a_machine_that_starts_no_more_processes_says_so_and_keeps_nothing_half() -> None:
    """A user who may not start more processes, in a process that has dropped root."""
    require_root()
    with temporary_home() as settings:
        settings.home.mkdir()
        lines = run_module("engine.process_limited_user", settings)
    *errors, last = map(json.loads, lines)
    assert last == "ready", "when processes are available again"
    sentence, _, left = errors[0]
    assert re.search("cannot be started: Resource temporarily unavailable|cannot start more threads", sentence)
    # Without a thread nothing can be cleaned up, either: the next start does that.
    assert left == [] or "threads" in sentence
    assert all(transient for _, transient, _ in errors)


def test_a_server_that_cannot_have_its_processes_is_told_as_that(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = (
        START_MARKER,
        "[1] LOG:  starting PostgreSQL",
        '[1] LOG:  could not fork "startup" process: Resource missing',
    )
    log.write_text("\n".join(lines))
    error = read_start_error(log, tmp_path)
    assert error.public_message == 'The compute could not start: could not fork "startup" process: Resource missing.'
    assert error.transient
