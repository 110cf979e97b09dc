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
from engine.consistency import Machine
from engine.going_back import fill, numbers, seen_at, up_to, write
from engine.homes import DRIVERS, Compute, Home, home_on

# The other tests here are on plain.
EVERYDAY = ("reflink", "btrfs+wal")


@pytest.fixture(
    scope="module",
    params=[each if each in EVERYDAY else pytest.param(each, marks=pytest.mark.long) for each in DRIVERS],
)
def any_settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on(request.param) as settings:
        yield settings


@pytest.fixture
async def any_home(any_settings: Settings) -> AsyncIterator[Home]:
    async with Home.opened(any_settings) as home:
        yield home


def bases(compute: Compute) -> list[Base]:
    return compute.home.engine._histories.bases.of(compute.spec.volume_id)


async def take(compute: Compute) -> Base | None:
    """As the engine does, when one is due."""
    engine, volume = compute.home.engine, compute.spec.volume_id
    record = engine._volumes.folder(volume).read()
    assert record is not None
    return await engine._histories.bases.take(volume, record, await engine._offer.pinned(record.install))


async def another_control(home: Home) -> None:
    await home.engine.close()
    home.engine = LocalEngine(home.settings)
    await home.engine.prepare()


async def test_points_are_reached_from_the_bases_before_them(any_home: Home) -> None:
    """Of one that runs, one that sleeps, and one that was never opened; none of one that was killed."""
    compute = await any_home.branch()
    unopened = await take(compute)
    assert unopened is not None
    assert await compute.run() is Readiness.READY
    first = await write(compute, 3)
    running = await take(compute)
    assert running is not None
    second = await write(compute, 3)
    await compute.suspend()
    asleep = await take(compute)
    assert asleep is not None
    assert await compute.run() is Readiness.READY
    third = await write(compute, 3)
    await compute.kill()
    assert await take(compute) is None
    assert [each.name for each in bases(compute)] == [unopened.name, running.name, asleep.name]

    for mark in (first[1], second[1], third[1]):
        for point in mark.points:
            assert await seen_at(compute, point) == up_to(mark)
    assert await compute.run() is Readiness.READY
    assert await numbers(compute) == up_to(third[-1])
    await compute.suspend()
    await compute.absent()
    places = any_home.engine._folders
    left = [
        path
        for folder in (places.volumes, places.history, places.spools, places.wal)
        if folder
        for path in folder.iterdir()
    ]
    assert left == []


async def test_old_wal_is_not_needed_where_there_is_a_base(any_home: Home) -> None:
    compute = await any_home.compute()
    await write(compute, 1)
    await fill(compute, 6)
    base = await take(compute)
    assert base is not None
    late = await write(compute, 2)
    archives = any_home.engine._histories.archives
    for name in archives.segments(compute.spec.volume_id):
        if name < base.first_segment:
            (archives.folder(compute.spec.volume_id) / name).unlink()
    assert await seen_at(compute, late[0].points[1]) == up_to(late[0])


async def test_nobody_but_us_sees_a_base(home: Home) -> None:
    compute = await home.compute()
    base = await take(compute)
    assert base is not None
    seen = base.folder.path.stat()
    assert stat.S_IMODE(seen.st_mode) == 0o700
    assert seen.st_uid == os.geteuid()
    assert base.name not in (await home.engine.observe()).volumes
    await another_control(home)
    assert bases(compute) == [base]
    assert "\n".join(Machine(home.settings).disorder()) == ""


async def test_a_base_of_one_that_sleeps_is_as_old_as_its_sleep(home: Home) -> None:
    """So what is older need not be kept for longer."""
    compute = await home.compute()
    await compute.suspend()
    slept = clock.now()
    await asyncio.sleep(1.1)
    base = await take(compute)
    assert base is not None
    assert base.at <= slept + timedelta(seconds=1)
    child = await home.child(compute)
    begun = home.engine._volumes.folder(child.spec.volume_id).read()
    assert begun is not None
    unopened = await take(child)
    assert unopened is not None
    assert unopened.lsn == begun.lsn


async def test_what_a_killed_control_left_of_a_base_is_taken_away(home: Home) -> None:
    compute = await home.compute()
    base = await take(compute)
    assert base is not None
    half = base.folder.path.with_name(base.name[:-1] + "x.making")
    half.mkdir()
    another = await take(compute)
    assert another is not None
    home.engine._histories.bases.hide(base)  # and nobody dropped it
    await another_control(home)
    assert bases(compute) == [another]
    assert "\n".join(Machine(home.settings).disorder()) == ""
