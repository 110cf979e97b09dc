"""Moving volumes from the npm build to Debian's, which has a newer minor version, and one step back."""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bough.config import Settings, default_cache
from bough.domain.history import HEAD, Point
from bough.engine.local.installs import download, installs, npm_build, selection, update
from bough.engine.local.installs.installs import Install
from bough.engine.local.installs.selection import SelectedInstall
from bough.engine.port import EngineError, Readiness
from engine.point_in_time import create_branch_at
from support.engine_home import Compute, EngineHome, make_branch_spec, temporary_home
from support.history import read_volume_record
from support.install_cache import add_install, copy_cache
from support.replicas import insert_numbers, read_numbers, start_replica, wait_until_equal

PIN = "npm-17"


@pytest.fixture(scope="module")
def npm() -> Install:
    return npm_build.fetch(17, default_cache())


@pytest.fixture(scope="module")
def debian() -> Install:
    return download.fetch_install(17, default_cache())


@pytest.fixture
def cache(npm: Install) -> Iterator[Path]:
    """A cache that contains only the npm build."""
    with copy_cache(npm) as folder:
        yield folder


@pytest.fixture
async def home(cache: Path) -> AsyncIterator[EngineHome]:
    with temporary_home(cache=cache) as settings:
        async with EngineHome.open(settings) as opened:
            yield opened


def select(settings: Settings, install: Install) -> None:
    """Do what `bough postgres update` does when it has built an install."""
    found = installs.find_installs(settings.cache)
    update.select(settings.home, update.list_serving(settings.home, found), {install.major: found[install.id]})


async def read_version(compute: Compute) -> str:
    version: str = await compute.fetch_value("show server_version")
    return version.split(maxsplit=1)[0]


async def restart(compute: Compute) -> None:
    await compute.suspend()
    assert await compute.start() is Readiness.READY


async def test_every_kind_of_volume_moves_to_the_new_build_and_back(
    home: EngineHome, cache: Path, debian: Install
) -> None:
    running, sleeping, archived = [await home.create_compute() for _ in range(3)]
    assert {each.spec.install for each in (running, sleeping, archived)} == {PIN}
    for each in (running, sleeping, archived):
        await insert_numbers(each, 1, 2)
    replica = await start_replica(running)
    before_update = Point(at=await running.fetch_value("select clock_timestamp()"))
    snapshot = await create_snapshot(running)
    await insert_numbers(running, 3)
    await sleeping.suspend()
    await archived.suspend()
    await home.engine.ensure_packed(archived.spec.project_id, archived.spec.volume_id)

    add_install(cache, debian)
    assert await home.engine.follow_builds() == "", "the operator did not select it yet"
    select(home.settings, debian)
    assert debian.id in await home.engine.follow_builds()
    assert await read_version(running) == "17.10", "a running compute is not disturbed"
    [build] = [each for each in await home.engine.list_builds() if each.pin == PIN]
    assert build.outdated == {running.spec.endpoint_id: "17.10", replica.spec.endpoint_id: "17.10"}
    assert (build.version, build.previous_version) == (debian.version, "17.10")

    await home.engine.ensure_unpacked(archived.spec.project_id, archived.spec.volume_id)
    for each in (running, sleeping, archived):
        await restart(each)
        assert await read_version(each) == debian.version
        await insert_numbers(each, 4)
    assert await read_numbers(running) == [1, 2, 3, 4]
    assert await read_numbers(archived) == [1, 2, 4]
    await restart(replica)
    assert await read_version(replica) == debian.version
    await wait_until_equal(lambda: read_numbers(replica), [1, 2, 3, 4])
    restored, _ = await create_branch_at(running, before_update)
    await restart(restored)
    assert (await read_version(restored), await read_numbers(restored)) == (debian.version, [1, 2])
    from_snapshot, _ = await create_branch_at(snapshot, HEAD)
    await restart(from_snapshot)
    assert (await read_version(from_snapshot), await read_numbers(from_snapshot)) == (debian.version, [1, 2])
    child = await home.create_child(sleeping)
    await restart(child)
    assert await read_numbers(child) == [1, 2, 4]

    new = await home.create_compute()
    assert (new.spec.install, await read_version(new)) == ("debian-17", debian.version)
    update.roll_back(home.settings, 17)
    await home.engine.follow_builds()
    await restart(sleeping)
    assert (await read_version(sleeping), await read_numbers(sleeping)) == ("17.10", [1, 2, 4])
    await restart(new)
    assert await read_version(new) == debian.version, "it was created on this build"


async def create_snapshot(compute: Compute) -> Compute:
    spec = make_branch_spec(compute.spec)
    copy = Compute(compute.home, replace(compute.spec, volume_id=type(compute.spec.volume_id).new()))
    await compute.home.engine.ensure_branch(
        replace(spec, volume_id=copy.spec.volume_id, source_volume_id=compute.spec.volume_id, is_snapshot=True)
    )
    compute.home.computes.append(copy)
    return copy


async def test_indexes_that_the_new_build_may_sort_differently_are_named(
    home: EngineHome, cache: Path, debian: Install
) -> None:
    compute = await home.create_compute()
    async with compute.connect() as session:
        await session.execute(
            """
            create collation german (provider = icu, locale = 'de-DE');
            create table words (word text collate german, plain text);
            create index "By word" on words (word);
            create index by_plain on words (plain)
            """
        )
    add_install(cache, debian)
    select(home.settings, debian)
    await home.engine.follow_builds()
    await home.engine.check_collations()
    assert not await home.engine.list_indexes_to_rebuild()
    await restart(compute)
    await home.engine.check_collations()
    found = await home.engine.list_indexes_to_rebuild()
    [index] = found[compute.spec.volume_id]
    assert (index.database, index.index) == ("neondb", "public.By word")
    await compute.fetch_value(index.statement)
    await compute.fetch_value("alter collation german refresh version")
    await restart(compute)
    home.engine._components.collation_checks._checked.clear()
    await home.engine.check_collations()
    assert not await home.engine.list_indexes_to_rebuild()


async def test_installs_and_templates_that_nobody_uses_are_removed(
    home: EngineHome, cache: Path, npm: Install, debian: Install
) -> None:
    compute = await home.create_compute()
    add_install(cache, debian)
    newer = debian.id[:-8] + "ffffffff"
    shutil.copytree(cache / "postgres" / debian.id, cache / "postgres" / newer, symlinks=True, copy_function=hard_link)
    for install_id in (debian.id, newer):
        entries = {pin: entry.replaced_by(install_id) for pin, entry in selection.read(home.settings.home).items()}
        selection.write(home.settings.home, {**entries, "debian-17": SelectedInstall(current=install_id)})
        await home.engine.follow_builds()
    templates = home.engine._components.templates
    assert (cache / "postgres" / npm.id).exists(), "a compute still runs from it"
    assert npm.id in templates.list_names(), "a volume was cloned from it"
    assert read_volume_record(compute).template == npm.id

    await compute.suspend()
    await compute.delete()
    home.computes.remove(compute)
    selection.write(home.settings.home, selection.read(home.settings.home))
    await home.engine.follow_builds()
    assert installs.find_installs(cache).keys() >= {debian.id, newer}
    assert not (cache / "postgres" / npm.id).exists()
    assert npm.id not in templates.list_names()


def hard_link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


async def test_another_home_keeps_what_it_uses(home: EngineHome, cache: Path, npm: Install, debian: Install) -> None:
    """An install that only another home selects stays in the cache that both share."""
    add_install(cache, debian)
    with temporary_home(cache=cache) as settings:
        async with EngineHome.open(settings) as other:
            select(home.settings, debian)
            await home.engine.follow_builds()
            entry = SelectedInstall(current=debian.id, previous=debian.id)
            selection.write(home.settings.home, {PIN: entry, "debian-17": entry})
            await home.engine.follow_builds()
            assert (cache / "postgres" / npm.id).exists()
            assert (await other.create_compute()).spec.install == "debian-17"
    recorded = [json.loads(path.read_text())["home"] for path in (cache / "postgres" / ".homes").iterdir()]
    assert sorted(recorded) == sorted([str(home.settings.home), str(settings.home)])


async def test_the_platform_does_not_undo_what_a_command_selects_meanwhile(
    home: EngineHome, cache: Path, debian: Install
) -> None:
    folder = home.settings.home
    with selection.hold(folder):
        add_install(cache, debian)
        await home.engine.prepare()
        assert debian.pin not in selection.read(folder)
        select(home.settings, debian)
    await home.engine.prepare()
    assert {selection.read(folder)[pin].current for pin in (PIN, debian.pin)} == {debian.id}


def test_a_rollback_needs_an_earlier_build(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, cache=tmp_path / "cache")
    with pytest.raises(EngineError, match="no earlier build of Postgres 17"):
        update.roll_back(settings, 17)


async def test_a_vulnerable_build_is_explained_until_another_one_serves_its_pin(
    home: EngineHome, npm: Install, debian: Install
) -> None:
    add_install(home.settings.cache, debian)
    await home.restart_control()
    assert "without 75 known security fixes" in home.engine.capabilities().vulnerable_builds[npm.pin]
    select(home.settings, debian)
    await home.engine.follow_builds()
    assert not home.engine.capabilities().vulnerable_builds.keys() & {npm.pin, debian.pin}
