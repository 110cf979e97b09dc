"""Computes outlive the program that started them; the next one finds them."""

import os
from pathlib import Path

import pytest

from bough.config import Settings
from bough.engine.local.engine import LocalEngine
from bough.engine.port import EngineError, Readiness
from engine.elsewhere import lines_of
from engine.homes import Home, connected, home_folder, is_process
from requires import require_root


async def test_a_second_engine_finds_what_the_first_left_running(home: Home) -> None:
    compute = await home.compute()
    pid = compute.pid
    await compute.value("create table kept as select 7 as n")
    await home.engine.close()

    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
    assert compute.spec.endpoint_id in (await home.engine.observe()).running
    assert await compute.run() is Readiness.READY
    assert compute.pid == pid
    assert await compute.value("select n from kept") == 7
    await compute.suspend()
    assert not is_process(pid)


async def test_one_that_died_in_the_meantime_is_forgotten(home: Home) -> None:
    compute = await home.compute()
    await compute.kill()
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()
    assert not (home.settings.home / "run" / f"{compute.spec.endpoint_id}.json").exists()
    assert not (home.settings.sockets / compute.spec.endpoint_id).exists()
    assert await compute.run() is Readiness.READY


async def test_a_record_that_a_power_cut_emptied_is_no_obstacle(home: Home) -> None:
    compute = await home.compute()
    (home.settings.home / "run" / f"{compute.spec.endpoint_id}.json").write_text("")
    assert await compute.run() is Readiness.READY
    assert compute.spec.endpoint_id in (await home.engine.observe()).running


async def test_nothing_is_left_of_a_suspended_compute(home: Home) -> None:
    compute = await home.compute()
    pid = compute.pid
    await compute.suspend()
    assert not is_process(pid)
    assert not (home.settings.sockets / compute.spec.endpoint_id).exists()
    assert not (home.settings.home / "run" / f"{compute.spec.endpoint_id}.json").exists()
    assert not (compute.data / "postmaster.pid").exists()


async def test_a_dead_child_does_not_stay_a_zombie(home: Home) -> None:
    compute = await home.compute()
    pid = compute.pid
    await compute.kill()
    await home.engine.observe()
    assert not is_process(pid)


async def test_a_missing_version_is_told_at_the_start() -> None:
    with home_folder(cache=Path("/nonexistent"), postgres_versions=(18,)) as settings:
        engine = LocalEngine(settings)
        with pytest.raises(EngineError, match="Postgres 18 is not on this machine"):
            await engine.prepare()
        await engine.close()


async def test_preparing_tells_its_progress_once(settings: Settings) -> None:
    stages: list[tuple[str, int, int]] = []
    with home_folder() as fresh:
        for _ in range(2):
            engine = LocalEngine(fresh)
            await engine.prepare(lambda *stage: stages.append(stage))
            await engine.close()
    assert stages == [("preparing Postgres 17", 0, 1), ("preparing Postgres 17", 1, 1)]


async def test_a_compute_needs_no_engine_to_go_on(home: Home) -> None:
    compute = await home.compute()
    address = await compute.address()
    assert address is not None
    await home.engine.close()
    async with connected(address) as db:
        assert await db.fetchval("select 1") == 1
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


def test_an_ordinary_user_can_do_the_same() -> None:
    """The whole life of a branch, in a process that gave up being root."""
    require_root()
    with home_folder() as settings:
        settings.home.mkdir()
        os.chown(settings.home, 65534, 65534)
        lines = lines_of("engine.ordinary_user", settings)
    assert lines == ["plain False", "17", "suspended", "absent"]
