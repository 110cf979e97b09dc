"""Control is killed while a database reaches its storage limit. The limit is enforced, and no committed row is lost."""

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

SMALL_PLANS = "{free = {}, unlimited = {storage_bytes = 8388608}}"
LARGE_PLANS = "{free = {}, unlimited = {}}"
FILL = "insert into much select repeat('x', 1000) from generate_series(1, 1000)"
_WRITE_ERRORS = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)


@pytest.fixture
def program() -> Iterator[Program]:
    with temporary_folder(0o755) as folder:
        created_program = Program(folder / "home", {**NO_RATE_LIMIT, "BOUGH_PLANS": SMALL_PLANS})
        yield created_program
        created_program.clean_up()


async def fill(project: ServedProject) -> int:
    """Writes until the database refuses read-write transactions. Returns the number of committed rows."""
    committed = 0
    while True:
        try:
            async with await project.connect_to(project.uri) as session:
                while True:
                    await session.execute("begin read write")
                    await session.execute(FILL)
                    await session.execute("commit")
                    committed += 1000
        except psycopg.errors.FeatureNotSupported:  # BEGIN READ WRITE is refused
            return committed
        except _WRITE_ERRORS:
            await asyncio.sleep(0.05)


async def can_write(project: ServedProject) -> bool:
    try:
        await project.fetch_value("insert into much values ('after') returning 1")
    except _WRITE_ERRORS:
        return False
    return True


async def kill_control(project: ServedProject, rng: random.Random, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(rng.uniform(0, 3))
        pid = await asyncio.to_thread(wait_until, lambda: project.bough.status()["control_pid"])
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_killing_control_while_a_database_fills_and_is_given_room_loses_nothing(program: Program) -> None:
    rng = random.Random(20261117)
    async with create_project(RunningPlatform(program, program.up())) as project:
        await (await project.connect()).execute("create table much (text text)")
        committed, _ = await asyncio.gather(fill(project), kill_control(project, rng, 6))
        assert not await can_write(project)
        row_count = await project.fetch_value("select count(*) from much")
        assert row_count >= committed
        program("down")
        program.variables = {**NO_RATE_LIMIT, "BOUGH_PLANS": LARGE_PLANS}
        program.up()
        assert await project.fetch_value("select count(*) from much") == row_count
        await kill_control(project, rng, 3)
        for _ in range(600):
            if await can_write(project):
                break
            await asyncio.sleep(0.1)
        assert await project.fetch_value("select count(*) from much") == row_count + 1
