"""Control is killed while computes are restarted in a maintenance window: each ends with the new build and its data."""

import asyncio
import json
import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from bough.config import default_cache
from bough.engine.local.installs import download
from journeys.program_store import read_store
from journeys.served_project import NO_RATE_LIMIT, RunningPlatform, ServedProject, create_project
from support.broken_builds import add_copy, select_build
from support.install_cache import add_install, temporary_cache
from support.platform import install_templates, temporary_folder
from support.program import Program, wait_until

TIMEOUT = 120
KILLS = 12
VERSION = "show server_version"


@pytest.fixture
def bough() -> Iterator[Program]:
    with temporary_cache() as cache, temporary_folder(0o755) as folder:
        add_install(cache, download.fetch_install(17, default_cache()))
        install_templates(folder / "home")
        program = Program(
            folder / "home",
            {
                **NO_RATE_LIMIT,
                "BOUGH_CACHE": str(cache),
                "BOUGH_MAINTENANCE_NOTICE_HOURS": "0",
                "BOUGH_MAINTENANCE_RESTARTS_AT_ONCE": "2",
                "BOUGH_WARM_POOL": "0",
            },
        )
        yield program
        program.clean_up()


def open_window_now(home: Path) -> bool:
    """Move the planned window to the present."""
    now = int(time.time() * 1_000_000)
    with closing(sqlite3.connect(home / "store.db", timeout=10)) as store, store:
        changed = store.execute(
            "update maintenance set scheduled_for = ?, ends_at = ? where scheduled_for is not null",
            (now - 60_000_000, now + 3_600_000_000),
        )
        return changed.rowcount > 0


def kill_control(bough: Program) -> None:
    control = int(bough.status()["control_pid"])
    os.kill(control, 9)
    bough.wait_for_restart(control)


def list_builds(home: Path) -> set[str]:
    builds = set()
    for path in (home / "run").glob("ep-*.json"):
        with suppress(FileNotFoundError, ValueError):
            builds.add(json.loads(path.read_text())["install"])
    return builds


def is_done(project: ServedProject, build: str) -> bool:
    home = project.bough.home
    planned = read_store(home, "select 1 from maintenance where scheduled_for is not null")
    opened = read_store(home, "select 1 from operations where ended_at is null")
    return not planned and not opened and list_builds(home) == {build}


@pytest.mark.long  # tests/tasks/test_run_maintenance.py and tests/engine/test_build_moves.py end control every day
@pytest.mark.timeout(1800)
async def test_control_that_is_killed_in_a_window(bough: Program) -> None:
    rng, cache = random.Random(20261120), Path(bough.variables["BOUGH_CACHE"])
    newest = download.fetch_install(17, default_cache())
    async with create_project(start(bough)) as project:
        add_branch(project)
        session = await project.connect()
        await session.execute("create table numbers as select 1 as n")
        for number in range(KILLS):
            newest = add_copy(cache, newest, f"17.{50 + number}", is_broken=False)
            select_build(project.settings, newest)
            wait_until(lambda: open_window_now(bough.home), TIMEOUT)
            wait_until(lambda: has_restart(bough), TIMEOUT)
            await asyncio.sleep(rng.uniform(0, 0.4))
            kill_control(bough)
            wait_until(partial(is_done, project, newest.id), TIMEOUT)
            assert await project.fetch_value("select count(*) from numbers") == number + 1
            await project.fetch_value("insert into numbers values (1) returning n")
    failed = read_store(bough.home, "select action, error from operations where status not in ('finished', 'skipped')")
    assert failed == []
    assert read_store(bough.home, "select id from endpoints where state <> 'active' or pending_state is not null") == []


def has_restart(bough: Program) -> bool:
    opened = "select 1 from operations where ended_at is null and request_id = 'maintenance'"
    return bool(read_store(bough.home, opened))


def start(bough: Program) -> RunningPlatform:
    return RunningPlatform(bough, bough.up())


def add_branch(project: ServedProject) -> None:
    body = {"branch": {}, "endpoints": [{"type": "read_write"}, {"type": "read_only"}]}
    project.api.post(f"{project.project_path}/branches", json=body).raise_for_status()
    wait_until(lambda: not read_store(project.bough.home, "select 1 from operations where ended_at is null"), TIMEOUT)
