"""Point-in-time recovery: from bases, across timelines, and while the parent is written to."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from bough import clock
from bough.domain.catalog_change import CreateRole
from bough.domain.history import HEAD, Point
from bough.engine.local.history.bases import Base
from bough.engine.port import Readiness
from engine.point_in_time import (
    CommitMark,
    create_branch_at,
    get_recovery_start,
    insert_number,
    insert_numbers,
    numbers_up_to,
    point_before,
    read_numbers,
    read_numbers_at,
    start_branch_at,
    take_base_backup,
    write_filler_wal,
)
from support.engine_home import VERIFIER, Compute, EngineHome, make_branch_spec

PAUSE_SECONDS = 0.2  # archived WAL takes memory here, and every recovery replays all of it


async def test_before_at_and_after_bases(home: EngineHome) -> None:
    compute = await home.create_compute()
    early = await insert_numbers(compute, 2)
    first = await take_base_backup(compute)
    middle = await insert_numbers(compute, 2)
    await compute.suspend()
    second = await take_base_backup(compute)
    assert await compute.start() is Readiness.READY
    late = await insert_numbers(compute, 2)
    for mark, base in ((early[0], None), (middle[0], first), (late[0], second)):
        for point in mark.points:
            if base is not None:
                assert get_recovery_start(compute, point) == base
            assert await read_numbers_at(compute, point) == numbers_up_to(mark), point
    for base, mark in ((first, early[-1]), (second, middle[-1])):
        assert get_recovery_start(compute, Point(lsn=base.lsn)) == base
        assert await read_numbers_at(compute, Point(lsn=base.lsn)) == numbers_up_to(mark)
        assert await read_numbers_at(compute, Point(at=base.at)) == numbers_up_to(mark)


async def test_before_the_first_commit_and_after_the_last(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    assert await read_numbers_at(compute, point_before(marks)) == []
    assert await read_numbers_at(compute, Point(at=clock.now())) == [1, 2]
    assert await read_numbers_at(compute, Point(at=clock.now() + timedelta(seconds=5))) == [1, 2]


async def test_what_is_in_it_is_known_without_another_start_until_something_changes(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 1)
    child, _ = await create_branch_at(compute, marks[0].points[0])
    branch, end = make_branch_spec(child.spec), await home.engine.read_wal_end(child.spec.volume_id)
    before = await home.engine.read_branch_contents(branch)
    assert await home.engine.read_wal_end(child.spec.volume_id) == end, "no server ran"
    assert before == await home.engine.read_branch_contents(branch)
    other, _ = await create_branch_at(compute, marks[0].points[0])
    branch = make_branch_spec(other.spec)
    await home.engine.apply_change(branch, CreateRole(name="later", verifier=VERIFIER))
    roles = {role.name for role in (await home.engine.read_branch_contents(branch)).roles}
    assert roles == {"later", *(role.name for role in before.roles)}


async def test_a_commit_is_in_at_its_end_and_not_a_byte_before(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table numbers (n int)")
        await db.execute("insert into numbers values (1)")
        before = await db.fetchval("select pg_current_wal_insert_lsn()::text")
        await db.execute("insert into numbers values (2)")
        after = await db.fetchval("select pg_current_wal_insert_lsn()::text")
    assert await read_numbers_at(compute, Point(lsn=after)) == [1, 2]
    assert await read_numbers_at(compute, Point(lsn=before)) == [1]


async def test_of_one_whose_volume_is_gone(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 3)
    child, _ = await create_branch_at(compute, HEAD)
    await compute.suspend()
    await home.engine.retire_volume(compute.spec.project_id, compute.spec.volume_id)
    assert not compute.volume_folder.exists()
    assert await read_numbers_at(compute, marks[1].points[0]) == [1, 2]
    assert await read_numbers_at(compute, marks[1].points[1]) == [1, 2]
    assert await read_numbers_at(compute, HEAD) == [1, 2, 3]
    assert await read_numbers_at(compute, Point(at=clock.now())) == [1, 2, 3]
    assert await child.start() is Readiness.READY
    own = await insert_numbers(child, 2)
    assert await read_numbers_at(child, own[0].points[0]) == [1, 2, 3, 4], "it depends on the retired volume"


async def test_of_one_that_stands_still(home: EngineHome) -> None:
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 3)
    assert await compute.start(is_read_only=True) is Readiness.READY
    for point in (*marks[1].points, Point(at=clock.now())):
        branch, _ = await create_branch_at(compute, point)
        assert await branch.start(is_read_only=False) is Readiness.READY
        assert await read_numbers(branch) == ([1, 2] if point in marks[1].points else [1, 2, 3])


async def test_of_a_child_of_a_child_none_of_which_has_a_base(home: EngineHome) -> None:
    compute = await home.create_compute()
    await insert_numbers(compute, 1)
    await write_filler_wal(compute, 9)
    child = await start_branch_at(compute, HEAD)
    await insert_numbers(child, 1)
    await write_filler_wal(child, 9)
    await child.suspend()
    grandchild = await start_branch_at(child, HEAD)
    marks = await insert_numbers(grandchild, 2)
    assert not isinstance(get_recovery_start(grandchild, HEAD), Base)
    for point in marks[0].points:
        assert await read_numbers_at(grandchild, point) == [1, 2, 3]
    child_of_killed = await start_child_of_killed(home, grandchild)
    own = await insert_numbers(child_of_killed, 2)
    assert await read_numbers_at(child_of_killed, own[0].points[1]) == [1, 2, 3, 4, 5]


async def start_child_of_killed(home: EngineHome, parent: Compute) -> Compute:
    await parent.kill()
    return await start_branch_at(parent, HEAD)


async def test_of_a_child_of_one_that_was_restored(home: EngineHome) -> None:
    """The child has no history file of its timeline; its parent has one, even when it is retired."""
    compute = await home.create_compute()
    marks = await insert_numbers(compute, 2)
    restored = await start_branch_at(compute, marks[0].points[0])
    await insert_numbers(restored, 1)
    child = await start_branch_at(restored, HEAD)
    await restored.suspend()
    await home.engine.retire_volume(restored.spec.project_id, restored.spec.volume_id)
    own = await insert_numbers(child, 2)
    assert await read_numbers_at(child, own[0].points[0]) == [1, 2, 3]
    base = await take_base_backup(child)
    await insert_numbers(child, 1)
    assert get_recovery_start(child, HEAD) == base
    await child.suspend()
    last, origin = await create_branch_at(child, own[1].points[1])
    assert origin.lsn is not None
    assert await last.start() is Readiness.READY
    assert await read_numbers(last) == [1, 2, 3, 4]


async def test_what_is_not_logged_is_empty_as_after_a_crash(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create unlogged table quick (n int)")
        await db.execute("insert into quick values (1)")
    marks = await insert_numbers(compute, 1)
    restored = await start_branch_at(compute, marks[0].points[0])
    assert await restored.fetch_value("select count(*) from quick") == 0
    assert await compute.fetch_value("select count(*) from quick") == 1


async def test_a_prepared_transaction_is_there_still(home: EngineHome) -> None:
    compute = await home.create_branch()
    settings = {**compute.spec.settings, "max_prepared_transactions": "20"}
    assert await compute.start(settings=settings) is Readiness.READY
    async with compute.connect() as db:
        await db.execute("create table numbers (n int)")
        await db.execute("begin; insert into numbers values (1); prepare transaction 'first'")
        point = Point(lsn=await db.fetchval("select pg_current_wal_insert_lsn()::text"))
        await db.execute("commit prepared 'first'")
    restored = await start_branch_at(compute, point)
    assert await read_numbers(restored) == []
    async with restored.connect() as db:
        await db.execute("commit prepared 'first'")
    assert await read_numbers(restored) == [1]


@asynccontextmanager
async def write_continuously(compute: Compute) -> AsyncIterator[list[CommitMark]]:
    """Insert rows all the time, and write so much WAL that segments are archived and recycled."""
    marks: list[CommitMark] = []
    is_done = asyncio.Event()

    async def insert_rows() -> None:
        async with compute.connect() as db:
            await db.execute("create table numbers (n int primary key)")
            while not is_done.is_set():
                marks.append(await insert_number(db))

    async def write_wal() -> None:
        while not is_done.is_set():
            await write_filler_wal(compute, 2)
            await asyncio.sleep(PAUSE_SECONDS)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(insert_rows())
        tasks.create_task(write_wal())
        try:
            yield marks
        finally:
            is_done.set()


async def test_while_it_is_written(home: EngineHome, is_long_run: bool) -> None:
    compute = await home.create_branch()
    settings = {**compute.spec.settings, "checkpoint_timeout": "30s", "max_wal_size": "8MB"}
    assert await compute.start(settings=settings) is Readiness.READY
    rng = random.Random(20261117)
    async with write_continuously(compute) as marks:
        for number in range(20 if is_long_run else 4):
            while len(marks) < 10 * (number + 1):  # noqa: ASYNC110 - a list of this test
                await asyncio.sleep(0.02)
            mark = rng.choice(marks[-10:])
            assert await read_numbers_at(compute, rng.choice(mark.points)) == numbers_up_to(mark)
