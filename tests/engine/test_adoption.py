"""Computes outlive the process that started them, and the next one finds them."""

import os
from pathlib import Path

import pytest

from bough.config import Settings
from bough.engine.local.engine import LocalEngine
from bough.engine.port import EngineError, Readiness
from engine.child_process import run_module
from support.engine_home import EngineHome, open_connection, process_exists, temporary_home
from support.requirements import require_root


async def test_a_second_engine_finds_what_the_first_left_running(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    await compute.fetch_value("create table kept as select 7 as n")
    await home.engine.close()

    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
    assert compute.spec.endpoint_id in (await home.engine.observe()).running_endpoints
    assert await compute.start() is Readiness.READY
    assert compute.pid == pid
    assert await compute.fetch_value("select n from kept") == 7
    await compute.suspend()
    assert not process_exists(pid)


async def test_one_that_died_in_the_meantime_is_forgotten(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.kill()
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
    assert not (home.settings.home / "run" / f"{compute.spec.endpoint_id}.json").exists()
    assert not (home.settings.sockets / compute.spec.endpoint_id).exists()
    assert await compute.start() is Readiness.READY


async def test_a_record_that_a_power_cut_emptied_is_no_obstacle(home: EngineHome) -> None:
    compute = await home.create_compute()
    (home.settings.home / "run" / f"{compute.spec.endpoint_id}.json").write_text("")
    assert await compute.start() is Readiness.READY
    assert compute.spec.endpoint_id in (await home.engine.observe()).running_endpoints


async def test_nothing_is_left_of_a_suspended_compute(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    await compute.suspend()
    assert not process_exists(pid)
    assert not (home.settings.sockets / compute.spec.endpoint_id).exists()
    assert not (home.settings.home / "run" / f"{compute.spec.endpoint_id}.json").exists()
    assert not (compute.data_folder / "postmaster.pid").exists()


async def test_a_dead_child_does_not_stay_a_zombie(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    await compute.kill()
    await home.engine.observe()
    assert not process_exists(pid)


async def test_a_missing_version_is_told_at_the_start() -> None:
    with temporary_home(cache=Path("/nonexistent"), postgres_versions=(18,)) as settings:
        engine = LocalEngine(settings)
        with pytest.raises(EngineError, match="Postgres 18 is not on this machine"):
            await engine.prepare()
        await engine.close()


async def test_preparing_tells_its_progress_once(settings: Settings) -> None:
    stages: list[tuple[str, int, int]] = []
    with temporary_home() as fresh:
        for _ in range(2):
            engine = LocalEngine(fresh)
            await engine.prepare(lambda *stage: stages.append(stage))
            await engine.close()
    assert stages == [("preparing Postgres 17", 0, 1), ("preparing Postgres 17", 1, 1)]


async def test_a_compute_needs_no_engine_to_go_on(home: EngineHome) -> None:
    compute = await home.create_compute()
    address = await compute.get_address()
    assert address is not None
    await home.engine.close()
    async with open_connection(address) as db:
        assert await db.fetchval("select 1") == 1
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


def test_an_ordinary_user_can_do_the_same() -> None:
    """The life cycle of a branch, in a process that has dropped root."""
    require_root()
    with temporary_home() as settings:
        settings.home.mkdir()
        os.chown(settings.home, 65534, 65534)
        lines = run_module("engine.unprivileged_user", settings)
    assert lines == ["plain False", "17", "suspended", "absent"]
