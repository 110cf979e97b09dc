"""Bases: what they hold, who sees them, and what is left of them after a crash."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from bough import clock
from bough.config import Settings
from bough.engine.local.engine import LocalEngine
from bough.engine.local.history.bases import Base
from bough.engine.port import Readiness
from engine.point_in_time import insert_numbers, numbers_up_to, read_numbers, read_numbers_at, write_filler_wal
from support.engine_home import DRIVERS, Compute, EngineHome, home_on_driver
from support.home_consistency import HomeConsistency

# The other tests here are on plain.
EVERYDAY = ("reflink", "btrfs+wal")


@pytest.fixture(
    scope="module",
    params=[each if each in EVERYDAY else pytest.param(each, marks=pytest.mark.long) for each in DRIVERS],
)
def any_settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on_driver(request.param) as settings:
        yield settings


@pytest.fixture
async def any_home(any_settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(any_settings) as home:
        yield home


def bases(compute: Compute) -> list[Base]:
    return compute.home.engine._history._bases.list_bases(compute.spec.volume_id)


async def take(compute: Compute) -> Base | None:
    """As the engine does, when one is due."""
    engine, volume = compute.home.engine, compute.spec.volume_id
    record = engine._volumes.folder(volume).read_record()
    assert record is not None
    return await engine._history._bases.take(
        volume, record, await engine._install_catalog.require_install(record.install)
    )


async def another_control(home: EngineHome) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


async def test_points_are_reached_from_the_bases_before_them(any_home: EngineHome) -> None:
    """Of one that runs, one that sleeps, and one that was never opened; none of one that was killed."""
    compute = await any_home.create_branch()
    unopened = await take(compute)
    assert unopened is not None
    assert await compute.start() is Readiness.READY
    first = await insert_numbers(compute, 3)
    running = await take(compute)
    assert running is not None
    second = await insert_numbers(compute, 3)
    await compute.suspend()
    asleep = await take(compute)
    assert asleep is not None
    assert await compute.start() is Readiness.READY
    third = await insert_numbers(compute, 3)
    await compute.kill()
    assert await take(compute) is None
    assert [each.name for each in bases(compute)] == [unopened.name, running.name, asleep.name]

    for mark in (first[1], second[1], third[1]):
        for point in mark.points:
            assert await read_numbers_at(compute, point) == numbers_up_to(mark)
    assert await compute.start() is Readiness.READY
    assert await read_numbers(compute) == numbers_up_to(third[-1])
    await compute.suspend()
    await compute.delete()
    places = any_home.engine._folders
    left = [
        path
        for folder in (places.volumes, places.wal_archives, places.spools, places.pg_wal)
        if folder
        for path in folder.iterdir()
    ]
    assert left == []


async def test_old_wal_is_not_needed_where_there_is_a_base(any_home: EngineHome) -> None:
    compute = await any_home.create_compute()
    await insert_numbers(compute, 1)
    await write_filler_wal(compute, 6)
    base = await take(compute)
    assert base is not None
    late = await insert_numbers(compute, 2)
    archives = any_home.engine._history._archives
    for name in archives.list_wal_files(compute.spec.volume_id):
        if name < base.first_segment:
            (archives.folder(compute.spec.volume_id) / name).unlink()
    assert await read_numbers_at(compute, late[0].points[1]) == numbers_up_to(late[0])


async def test_nobody_but_us_sees_a_base(home: EngineHome) -> None:
    compute = await home.create_compute()
    base = await take(compute)
    assert base is not None
    seen = base.folder.path.stat()
    assert stat.S_IMODE(seen.st_mode) == 0o700
    assert seen.st_uid == os.geteuid()
    assert base.name not in (await home.engine.observe()).volumes
    await another_control(home)
    assert bases(compute) == [base]
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""


async def test_a_base_of_one_that_sleeps_is_as_old_as_its_sleep(home: EngineHome) -> None:
    """So what is older need not be kept for longer."""
    compute = await home.create_compute()
    await compute.suspend()
    slept = clock.now()
    await asyncio.sleep(1.1)
    base = await take(compute)
    assert base is not None
    assert base.at <= slept + timedelta(seconds=1)
    child = await home.create_child(compute)
    begun = home.engine._volumes.folder(child.spec.volume_id).read_record()
    assert begun is not None
    unopened = await take(child)
    assert unopened is not None
    assert unopened.lsn == begun.lsn


async def test_what_a_killed_control_left_of_a_base_is_taken_away(home: EngineHome) -> None:
    compute = await home.create_compute()
    base = await take(compute)
    assert base is not None
    half = base.folder.path.with_name(base.name[:-1] + "x.making")
    half.mkdir()
    another = await take(compute)
    assert another is not None
    home.engine._history._bases.hide(base)  # and nobody dropped it
    await another_control(home)
    assert bases(compute) == [another]
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
