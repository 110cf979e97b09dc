"""Control is killed while databases fill up: whatever moment it is, they end as they shall, and nothing is lost."""

import asyncio
import os
import random
import signal
from collections.abc import Iterator

import psycopg
import pytest

from journeys.served_project import NO_RATE_LIMIT, RunningPlatform, ServedProject, create_project
from support.platform import temporary_folder
from support.program import Program, wait_until

SMALL = "{free = {}, unlimited = {storage_bytes = 8388608}}"
LARGE = "{free = {}, unlimited = {}}"
FILL = "insert into much select repeat('x', 1000) from generate_series(1, 1000)"
_GONE = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)


@pytest.fixture
def program() -> Iterator[Program]:
    with temporary_folder(0o755) as folder:
        made = Program(folder / "home", {**NO_RATE_LIMIT, "BOUGH_PLANS": SMALL})
        yield made
        made.clean_up()


async def fill(one: ServedProject) -> int:
    """Until nothing can be written at all; how many rows were."""
    rows = 0
    while True:
        try:
            async with await one.connect_to(one.uri) as session:
                while True:
                    await session.execute("begin read write")
                    await session.execute(FILL)
                    await session.execute("commit")
                    rows += 1000
        except psycopg.errors.FeatureNotSupported:  # no transaction can ask to write any more
            return rows
        except _GONE:
            await asyncio.sleep(0.05)


async def writes(one: ServedProject) -> bool:
    try:
        await one.fetch_value("insert into much values ('after') returning 1")
    except _GONE:
        return False
    return True


async def kill_control(one: ServedProject, dice: random.Random, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(dice.uniform(0, 3))
        pid = await asyncio.to_thread(wait_until, lambda: one.bough.status()["control_pid"])
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_killing_control_while_a_database_fills_and_is_given_room_loses_nothing(program: Program) -> None:
    dice = random.Random(20261117)
    async with create_project(RunningPlatform(program, program.up())) as one:
        await (await one.connect()).execute("create table much (text text)")
        rows, _ = await asyncio.gather(fill(one), kill_control(one, dice, 6))
        assert not await writes(one)
        kept = await one.fetch_value("select count(*) from much")
        assert kept >= rows
        program("down")
        program.variables = {**NO_RATE_LIMIT, "BOUGH_PLANS": LARGE}
        program.up()
        assert await one.fetch_value("select count(*) from much") == kept
        await kill_control(one, dice, 3)
        for _ in range(600):
            if await writes(one):
                break
            await asyncio.sleep(0.1)
        assert await one.fetch_value("select count(*) from much") == kept + 1
