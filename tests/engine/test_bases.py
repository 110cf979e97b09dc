"""Bases: what they contain, who can see them, and what a crash leaves of them."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from bough import clock
from bough.config import Settings
from bough.engine.port import Readiness
from engine.point_in_time import insert_numbers, numbers_up_to, read_numbers, read_numbers_at, write_filler_wal
from support.engine_home import DRIVERS, EngineHome, home_on_driver
from support.history import archive_folder, hide_base, list_archived_wal, list_bases, take_base
from support.home_consistency import HomeConsistency

# The other tests in this module run on the plain driver.
EVERYDAY_DRIVERS = ("reflink", "btrfs+wal")


@pytest.fixture(
    scope="module",
    params=[each if each in EVERYDAY_DRIVERS else pytest.param(each, marks=pytest.mark.long) for each in DRIVERS],
)
def any_settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on_driver(request.param) as settings:
        yield settings


@pytest.fixture
async def any_home(any_settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(any_settings) as home:
        yield home


async def test_points_are_reached_from_the_bases_before_them(any_home: EngineHome) -> None:
    """Bases are taken of a running, a stopped and a never opened volume, and none of a killed one."""
    compute = await any_home.create_branch()
    unopened = await take_base(compute)
    assert unopened is not None
    assert await compute.start() is Readiness.READY
    first = await insert_numbers(compute, 3)
    running = await take_base(compute)
    assert running is not None
    second = await insert_numbers(compute, 3)
    await compute.suspend()
    stopped = await take_base(compute)
    assert stopped is not None
    assert await compute.start() is Readiness.READY
    third = await insert_numbers(compute, 3)
    await compute.kill()
    assert await take_base(compute) is None
    assert [each.name for each in list_bases(compute)] == [unopened.name, running.name, stopped.name]

    for mark in (first[1], second[1], third[1]):
        for point in mark.points:
            assert await read_numbers_at(compute, point) == numbers_up_to(mark)
    assert await compute.start() is Readiness.READY
    assert await read_numbers(compute) == numbers_up_to(third[-1])
    await compute.suspend()
    await compute.delete()
    folders = any_home.engine._components.folders
    left = [
        path
        for folder in (folders.volumes, folders.wal_archives, folders.spools, folders.pg_wal)
        if folder
        for path in folder.iterdir()
    ]
    assert left == []


async def test_old_wal_is_not_needed_where_there_is_a_base(any_home: EngineHome) -> None:
    compute = await any_home.create_compute()
    await insert_numbers(compute, 1)
    await write_filler_wal(compute, 6)
    base = await take_base(compute)
    assert base is not None
    late = await insert_numbers(compute, 2)
    for name in list_archived_wal(compute):
        if name < base.first_segment:
            (archive_folder(compute) / name).unlink()
    assert await read_numbers_at(compute, late[0].points[1]) == numbers_up_to(late[0])


async def test_nobody_but_us_sees_a_base(home: EngineHome) -> None:
    compute = await home.create_compute()
    base = await take_base(compute)
    assert base is not None
    status = base.folder.path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o700
    assert status.st_uid == os.geteuid()
    assert base.name not in (await home.engine.observe()).volumes
    await home.restart_control()
    assert list_bases(compute) == [base]
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""


async def test_a_base_of_one_that_sleeps_is_as_old_as_its_sleep(home: EngineHome) -> None:
    """So older history need not be retained longer."""
    compute = await home.create_compute()
    await compute.suspend()
    suspended_at = clock.now()
    await asyncio.sleep(1.1)
    base = await take_base(compute)
    assert base is not None
    assert base.at <= suspended_at + timedelta(seconds=1)
    child = await home.create_child(compute)
    record = home.engine._components.volumes.folder(child.spec.volume_id).read_record()
    assert record is not None
    unopened = await take_base(child)
    assert unopened is not None
    assert unopened.lsn == record.origin_lsn


async def test_what_a_killed_control_left_of_a_base_is_taken_away(home: EngineHome) -> None:
    compute = await home.create_compute()
    base = await take_base(compute)
    assert base is not None
    unfinished = base.folder.path.with_name(base.name[:-1] + "x.making")
    unfinished.mkdir()
    another = await take_base(compute)
    assert another is not None
    hide_base(home.engine, base)  # as if control was killed before it dropped the base
    await home.restart_control()
    assert list_bases(compute) == [another]
    assert "\n".join(HomeConsistency(home.settings).find_inconsistencies()) == ""
