"""The warm pool: matching projects get a running compute, all others are cloned, and nothing is left over."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import asyncpg
import pytest

from bough.config import Settings
from bough.engine.local.computes import spare_assignment
from bough.engine.local.computes.postmaster_process import reap
from bough.engine.local.engine import LocalEngine
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import DatabaseSpec, RoleSpec, build_compute_settings
from bough.postgres import postgresql_conf
from engine.warm_home import DEFAULT_SETTINGS, WarmHome
from support.engine_home import VERIFIER, home_on_driver, kill_process, make_branch_spec, process_exists
from support.platform import install_templates


@pytest.fixture
def settings() -> Iterator[Settings]:
    with home_on_driver("plain", warm_pool=1) as made:
        install_templates(made.home)
        yield made


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[WarmHome]:
    async with WarmHome.open(settings) as opened:
        yield opened


async def test_a_project_that_fits_takes_a_running_compute_with_its_user(home: WarmHome) -> None:
    [spare] = await home.wait_for_spares(1)
    pid, uid = home.postmaster_pid(spare), (home.settings.home / "volumes" / spare / "data").stat().st_uid
    compute = await home.create_project()
    assert await compute.start() is Readiness.READY
    assert compute.pid == pid
    assert compute.data_folder.stat().st_uid == uid
    assert await compute.fetch_value("select current_user || '@' || current_database()") == "neondb_owner@neondb"
    assert await compute.fetch_value("show shared_preload_libraries") == "pg_stat_statements"
    assert await home.wait_for_spares(1) != {spare}, "the pool is refilled"


async def test_names_and_passwords_are_those_of_the_project(home: WarmHome) -> None:
    await home.wait_for_spares(1)
    compute = await home.create_project(
        roles=(RoleSpec(name="writer", verifier=VERIFIER),), databases=(DatabaseSpec(name="diary", owner="writer"),)
    )
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select current_database()", "writer", "diary") == "diary"
    verifier = await compute.fetch_value(
        "select rolpassword from pg_authid where rolname = 'writer'", "bough_admin", "postgres"
    )
    assert verifier == VERIFIER
    names = await compute.fetch_value("select array_agg(rolname::text) from pg_roles", "bough_admin", "postgres")
    assert "neondb_owner" not in names


async def test_spares_are_made_for_the_plan_of_whoever_took_the_last_one(home: WarmHome) -> None:
    """Then the next project on the same plan needs no reload of its limits."""
    for megabytes, is_as_made in ((200, False), (200, True), (300, False)):
        [spare] = await home.wait_for_spares(1)
        limits = f"{megabytes // 2 * 1024}kB"
        written = (home.settings.home / "volumes" / spare / "conf" / postgresql_conf.LIMITS_FILE).read_text()
        assert (limits in written) is is_as_made
        compute = await home.create_project(storage_limit_bytes=megabytes * 2**20)
        assert await compute.start() is Readiness.READY
        assert compute.pid == home.postmaster_pid(spare)
        while await compute.fetch_value("show temp_file_limit") != f"{megabytes // 2}MB":  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "options",
    [
        None,
        build_compute_settings(1, logical_replication=False),
        build_compute_settings(0.25, logical_replication=True),
    ],
)
async def test_a_request_of_another_shape_is_cloned_cold(home: WarmHome, options: dict[str, str] | None) -> None:
    [spare] = await home.wait_for_spares(1)
    compute = await home.create_project(options)
    assert await compute.start(settings=options or DEFAULT_SETTINGS) is Readiness.READY
    assert spare in (await home.engine.observe()).spare_endpoints


async def test_more_projects_than_spares_are_all_made(home: WarmHome) -> None:
    await home.wait_for_spares(1)
    made = await asyncio.gather(*(home.create_project() for _ in range(4)))
    assert await asyncio.gather(*(each.start() for each in made)) == [Readiness.READY] * 4
    assert len({each.pid for each in made}) == 4
    assert len({each.data_folder.stat().st_uid for each in made}) in (
        1,
        4,
    )  # one user id, when the platform does not run as root


async def test_it_can_be_suspended_woken_reloaded_and_removed_like_any_other(home: WarmHome) -> None:
    [spare] = await home.wait_for_spares(1)
    compute = await home.create_project()
    await compute.start()
    async with compute.connect() as db:
        await db.execute("create table kept as select 'here' as word")
    await compute.start(settings={**DEFAULT_SETTINGS, "work_mem": "8MB"})
    assert await compute.fetch_value("show work_mem") == "8MB"
    await compute.suspend()
    assert not (home.settings.home / "volumes" / spare).is_symlink()
    assert not (home.settings.sockets / spare).is_symlink()
    await compute.start()
    assert await compute.fetch_value("select word from kept") == "here"
    await compute.suspend()
    await compute.delete()
    assert not compute.volume_folder.exists()


async def test_a_crashed_session_in_it_is_survived_under_its_new_name(home: WarmHome) -> None:
    """Postgres restarts itself and opens its folder by the original name, which is now a link."""
    await home.wait_for_spares(1)
    compute = await home.create_project()
    await compute.start()
    pid = compute.pid
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        async with compute.connect() as db:
            os.kill(await db.fetchval("select pg_backend_pid()"), signal.SIGKILL)
    while True:
        try:
            assert await compute.fetch_value("select 1") == 1
            break
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):  # the server is recovering
            await asyncio.sleep(0.02)
    assert compute.pid == pid


async def test_a_dead_spare_is_not_given_to_anyone(home: WarmHome) -> None:
    [spare] = await home.wait_for_spares(1)
    pid = home.postmaster_pid(spare)
    await kill_process(pid)
    compute = await home.create_project()
    assert await compute.start() is Readiness.READY
    assert not (home.settings.home / "volumes" / spare).exists()


async def test_the_next_control_adopts_what_fits(settings: Settings) -> None:
    home = await WarmHome.start(settings)
    [spare] = await home.wait_for_spares(1)
    pid = home.postmaster_pid(spare)
    await home.engine.close()
    async with WarmHome.open(settings) as again:
        assert await again.wait_for_spares(1) == {spare}
        assert again.postmaster_pid(spare) == pid


async def test_the_next_control_sweeps_what_does_not_fit(settings: Settings) -> None:
    home = await WarmHome.start(settings, spare_cu=1)
    [spare] = await home.wait_for_spares(1)
    pid = home.postmaster_pid(spare)
    await home.engine.close()
    async with WarmHome.open(settings) as again:
        assert spare not in await again.wait_for_spares(1)
        assert not process_exists(pid)
        assert not (settings.home / "volumes" / spare).exists()


async def test_without_a_pool_the_spares_of_before_are_swept(settings: Settings) -> None:
    first = await WarmHome.start(settings)
    await first.wait_for_spares(1)
    await first.engine.close()
    again = LocalEngine(settings.model_copy(update={"warm_pool": 0}), spare_cu=0.25)
    await again.prepare()
    assert (await again.observe()).spare_endpoints == frozenset()
    assert list((settings.home / "volumes").iterdir()) == []
    assert list((settings.home / "run").iterdir()) == []
    assert list((settings.home / "uids").iterdir()) == []
    await again.close()


async def test_a_taken_spare_waits_for_its_endpoint_over_a_restart(settings: Settings) -> None:
    home = await WarmHome.start(settings)
    await home.wait_for_spares(1)
    compute = await home.create_project()
    pid = compute.pid
    await home.engine.close()
    async with WarmHome.open(settings) as again:
        adopted = again.adopt(compute)
        assert await adopted.start() is Readiness.READY
        assert adopted.pid == pid


async def test_links_whose_compute_nobody_knows_are_gone_at_the_next_start(settings: Settings) -> None:
    """A power failure loses the run, which is not synced, and leaves the link."""
    home = await WarmHome.start(settings)
    [spare] = await home.wait_for_spares(1)
    compute = await home.create_project()
    await compute.start()
    await kill_process(compute.pid)
    (settings.home / "run" / f"{compute.spec.endpoint_id}.json").unlink()
    await home.engine.close()
    async with WarmHome.open(settings) as again:
        assert not (settings.home / "volumes" / spare).is_symlink()
        assert not (settings.sockets / spare).is_symlink()
        adopted = again.adopt(compute)
        assert await adopted.start() is Readiness.READY


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_taken_spare_without_an_endpoint_goes_with_its_branch(home: WarmHome, is_killed: bool) -> None:
    [spare] = await home.wait_for_spares(1)
    compute = await home.create_project()
    pid = compute.pid
    if is_killed:
        await kill_process(pid)
    await compute.delete()
    assert not process_exists(pid)
    assert not compute.volume_folder.exists()
    assert not (home.settings.home / "run" / f"{spare}.json").exists()
    for folder in (home.settings.home / "volumes", home.settings.sockets):
        assert not os.path.lexists(folder / spare)


async def test_an_endpoint_s_compute_from_the_pool_keeps_its_volume(home: WarmHome) -> None:
    await home.wait_for_spares(1)
    compute = await home.create_project()
    await compute.start()
    with pytest.raises(EngineError, match="still runs"):
        await compute.delete()
    assert await compute.fetch_value("select 1") == 1


class Crash(BaseException):
    """Control ends here."""


@pytest.mark.parametrize(
    ("step", "goes_on"),
    [
        ("_link", True),
        ("sync_folder", False),
        pytest.param("_link", False, marks=pytest.mark.long),
        pytest.param("sync_folder", True, marks=pytest.mark.long),
    ],
)
async def test_a_crash_in_the_handover_is_made_good(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, step: str, goes_on: bool
) -> None:
    """After the rename the branch has its volume, and a compute without a run may serve it."""
    home = await WarmHome.start(settings)
    [spare] = await home.wait_for_spares(1)
    pid = home.postmaster_pid(spare)

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(spare_assignment, step, crash)
    with pytest.raises(Crash):
        await home.create_project()
    monkeypatch.undo()
    await home.engine.close()
    async with WarmHome.open(settings) as again:
        compute = again.adopt(home.computes[0])
        if goes_on:
            assert await compute.start() is Readiness.READY
            assert await compute.fetch_value("select 1") == 1
            await compute.suspend()
        await compute.delete()
        reap(pid)  # the crashed control process was its parent, and this test continues in that process
        assert not process_exists(pid)


async def test_a_crash_before_the_rename_leaves_nothing_of_the_spare(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = await WarmHome.start(settings)
    [spare] = await home.wait_for_spares(1)
    pid = home.postmaster_pid(spare)

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(VolumeFolder, "clear_applied_digest", crash)
    with pytest.raises(Crash):
        await home.create_project()
    monkeypatch.undo()
    await home.engine.close()
    async with WarmHome.open(settings) as again:
        assert not process_exists(pid)
        assert not (settings.home / "volumes" / spare).exists()
        compute = again.adopt(home.computes[0])
        await again.engine.ensure_branch(make_branch_spec(compute.spec))
        assert await compute.start() is Readiness.READY


async def test_a_project_that_has_a_user_already_keeps_it(home: WarmHome) -> None:
    first = await home.create_project(None)
    await home.wait_for_spares(1)
    second = await home.create_project(project_id=first.spec.project_id)
    assert second.data_folder.stat().st_uid == first.data_folder.stat().st_uid


async def test_no_spare_is_made_beyond_the_share_of_memory(settings: Settings) -> None:
    engine = LocalEngine(settings.model_copy(update={"warm_memory_share": 0.0001}), spare_cu=0.25)
    await engine.prepare()
    await asyncio.sleep(0.2)
    assert (await engine.observe()).spare_endpoints == frozenset()
    assert list((settings.home / "volumes").iterdir()) == []
    await engine.close()


@pytest.mark.parametrize(
    "driver", ["btrfs+wal", *(pytest.param(each, marks=pytest.mark.long) for each in ("reflink", "btrfs"))]
)
async def test_it_works_on_every_driver(driver: str) -> None:
    with home_on_driver(driver, warm_pool=1) as settings:
        async with WarmHome.open(settings) as home:
            await home.wait_for_spares(1)
            compute = await home.create_project()
            assert await compute.start() is Readiness.READY
            async with compute.connect() as db:
                await db.execute("create table kept as select n from generate_series(1, 1000) n")
            await compute.suspend()
            assert await compute.start() is Readiness.READY
            assert await compute.fetch_value("select count(*) from kept") == 1000
            child = await home.create_child(compute)
            assert await child.start() is Readiness.READY
            assert await child.fetch_value("select count(*) from kept") == 1000
