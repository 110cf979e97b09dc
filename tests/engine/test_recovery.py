"""Going back to a point of a volume's life: from bases, over timelines, and while it is written."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from bough import clock
from bough.domain.change import MakeRole
from bough.domain.history import HEAD, Point
from bough.engine.local.history.bases import Base
from bough.engine.port import Readiness
from engine.going_back import (
    Mark,
    back,
    before,
    begin_at,
    fill,
    first_way,
    numbers,
    seen_at,
    take_base,
    up_to,
    write,
    write_one,
)
from engine.homes import VERIFIER, Compute, Home, branch_of

BREATH = 0.2  # seconds: what is archived takes memory here, and all of it is replayed again and again


async def test_before_at_and_after_bases(home: Home) -> None:
    compute = await home.compute()
    early = await write(compute, 2)
    first = await take_base(compute)
    middle = await write(compute, 2)
    await compute.suspend()
    second = await take_base(compute)
    assert await compute.run() is Readiness.READY
    late = await write(compute, 2)
    for mark, base in ((early[0], None), (middle[0], first), (late[0], second)):
        for point in mark.points:
            if base is not None:
                assert first_way(compute, point) == base
            assert await seen_at(compute, point) == up_to(mark), point
    for base, mark in ((first, early[-1]), (second, middle[-1])):
        assert first_way(compute, Point(lsn=base.lsn)) == base
        assert await seen_at(compute, Point(lsn=base.lsn)) == up_to(mark)
        assert await seen_at(compute, Point(at=base.at)) == up_to(mark)


async def test_before_the_first_commit_and_after_the_last(home: Home) -> None:
    compute = await home.compute()
    marks = await write(compute, 2)
    assert await seen_at(compute, before(marks)) == []
    assert await seen_at(compute, Point(at=clock.now())) == [1, 2]
    assert await seen_at(compute, Point(at=clock.now() + timedelta(seconds=5))) == [1, 2]


async def test_what_is_in_it_is_known_without_another_start_until_something_changes(home: Home) -> None:
    compute = await home.compute()
    marks = await write(compute, 1)
    child, _ = await begin_at(compute, marks[0].points[0])
    branch, end = branch_of(child.spec), await home.engine.written_until(child.spec.volume_id)
    before_it = await home.engine.look_into(branch)
    assert await home.engine.written_until(child.spec.volume_id) == end, "no server ran"
    assert before_it == await home.engine.look_into(branch)
    other, _ = await begin_at(compute, marks[0].points[0])
    branch = branch_of(other.spec)
    await home.engine.change(branch, MakeRole(name="later", verifier=VERIFIER))
    now = {role.name for role in (await home.engine.look_into(branch)).roles}
    assert now == {"later", *(role.name for role in before_it.roles)}


async def test_a_commit_is_in_at_its_end_and_not_a_byte_before(home: Home) -> None:
    compute = await home.compute()
    async with compute.connect() as db:
        await db.execute("create table numbers (n int)")
        await db.execute("insert into numbers values (1)")
        begins = await db.fetchval("select pg_current_wal_insert_lsn()::text")
        await db.execute("insert into numbers values (2)")
        ends = await db.fetchval("select pg_current_wal_insert_lsn()::text")
    assert await seen_at(compute, Point(lsn=ends)) == [1, 2]
    assert await seen_at(compute, Point(lsn=begins)) == [1]


async def test_of_one_whose_volume_is_gone(home: Home) -> None:
    compute = await home.compute()
    marks = await write(compute, 3)
    child, _ = await begin_at(compute, HEAD)
    await compute.suspend()
    await home.engine.retire(compute.spec.project_id, compute.spec.volume_id)
    assert not compute.volume.exists()
    assert await seen_at(compute, marks[1].points[0]) == [1, 2]
    assert await seen_at(compute, marks[1].points[1]) == [1, 2]
    assert await seen_at(compute, HEAD) == [1, 2, 3]
    assert await seen_at(compute, Point(at=clock.now())) == [1, 2, 3]
    assert await child.run() is Readiness.READY
    own = await write(child, 2)
    assert await seen_at(child, own[0].points[0]) == [1, 2, 3, 4], "it stands on the one that is gone"


async def test_of_one_that_stands_still(home: Home) -> None:
    compute = await home.compute()
    marks = await write(compute, 3)
    assert await compute.run(stands=True) is Readiness.READY
    for point in (*marks[1].points, Point(at=clock.now())):
        own, _ = await begin_at(compute, point)
        assert await own.run(stands=False) is Readiness.READY
        assert await numbers(own) == ([1, 2] if point in marks[1].points else [1, 2, 3])


async def test_of_a_child_of_a_child_none_of_which_has_a_base(home: Home) -> None:
    compute = await home.compute()
    await write(compute, 1)
    await fill(compute, 9)
    child = await back(compute, HEAD)
    await write(child, 1)
    await fill(child, 9)
    await child.suspend()
    grandchild = await back(child, HEAD)
    marks = await write(grandchild, 2)
    assert not isinstance(first_way(grandchild, HEAD), Base)
    for point in marks[0].points:
        assert await seen_at(grandchild, point) == [1, 2, 3]
    of_a_killed = await back_of_a_killed(home, grandchild)
    own = await write(of_a_killed, 2)
    assert await seen_at(of_a_killed, own[0].points[1]) == [1, 2, 3, 4, 5]


async def back_of_a_killed(home: Home, parent: Compute) -> Compute:
    await parent.kill()
    return await back(parent, HEAD)


async def test_of_a_child_of_one_that_was_restored(home: Home) -> None:
    """The child has no file that says where its timeline begins; its parent has, even when it is gone."""
    compute = await home.compute()
    marks = await write(compute, 2)
    restored = await back(compute, marks[0].points[0])
    await write(restored, 1)
    child = await back(restored, HEAD)
    await restored.suspend()
    await home.engine.retire(restored.spec.project_id, restored.spec.volume_id)
    own = await write(child, 2)
    assert await seen_at(child, own[0].points[0]) == [1, 2, 3]
    base = await take_base(child)
    await write(child, 1)
    assert first_way(child, HEAD) == base
    await child.suspend()
    last, origin = await begin_at(child, own[1].points[1])
    assert origin.lsn is not None
    assert await last.run() is Readiness.READY
    assert await numbers(last) == [1, 2, 3, 4]


async def test_what_is_not_logged_is_empty_as_after_a_crash(home: Home) -> None:
    compute = await home.compute()
    async with compute.connect() as db:
        await db.execute("create unlogged table quick (n int)")
        await db.execute("insert into quick values (1)")
    marks = await write(compute, 1)
    restored = await back(compute, marks[0].points[0])
    assert await restored.value("select count(*) from quick") == 0
    assert await compute.value("select count(*) from quick") == 1


async def test_a_prepared_transaction_is_there_still(home: Home) -> None:
    compute = await home.branch()
    settings = {**compute.spec.settings, "max_prepared_transactions": "20"}
    assert await compute.run(settings=settings) is Readiness.READY
    async with compute.connect() as db:
        await db.execute("create table numbers (n int)")
        await db.execute("begin; insert into numbers values (1); prepare transaction 'first'")
        point = Point(lsn=await db.fetchval("select pg_current_wal_insert_lsn()::text"))
        await db.execute("commit prepared 'first'")
    restored = await back(compute, point)
    assert await numbers(restored) == []
    async with restored.connect() as db:
        await db.execute("commit prepared 'first'")
    assert await numbers(restored) == [1]


@asynccontextmanager
async def writing(compute: Compute) -> AsyncIterator[list[Mark]]:
    """Rows that come all the time, and so much WAL that segments are archived and used again."""
    marks: list[Mark] = []
    over = asyncio.Event()

    async def write_on() -> None:
        async with compute.connect() as db:
            await db.execute("create table numbers (n int primary key)")
            while not over.is_set():
                marks.append(await write_one(db))

    async def fill_on() -> None:
        while not over.is_set():
            await fill(compute, 2)
            await asyncio.sleep(BREATH)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write_on())
        tasks.create_task(fill_on())
        try:
            yield marks
        finally:
            over.set()


async def test_while_it_is_written(home: Home, long: bool) -> None:
    compute = await home.branch()
    settings = {**compute.spec.settings, "checkpoint_timeout": "30s", "max_wal_size": "8MB"}
    assert await compute.run(settings=settings) is Readiness.READY
    dice = random.Random(20261117)
    async with writing(compute) as marks:
        for number in range(20 if long else 4):
            while len(marks) < 10 * (number + 1):  # noqa: ASYNC110 - of ours alone
                await asyncio.sleep(0.02)
            mark = dice.choice(marks[-10:])
            assert await seen_at(compute, dice.choice(mark.points)) == up_to(mark)
