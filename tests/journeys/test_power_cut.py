"""The power of a whole platform is cut as soon as it has answered: what it said is true after the next start."""

import asyncio
import os
import random
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from bough.config import Settings
from bough.domain.gateway_protocol import ComputeAddress
from support.engine_home import open_connection
from support.engine_walk import reserve_uid_range
from support.home_consistency import HomeConsistency
from support.power_cut import Disk, create_disk, simulate_power_cut
from support.program import Program, is_alive
from support.requirements import require_cow

CUTS, LONG_CUTS = 2, 20
AT_ONCE = 4
VARIABLES = {
    "BOUGH_RECOVERABLE_SECONDS": "0",
    "BOUGH_FREE_SPACE_FLOOR": "0",
    "BOUGH_RATE_PER_MINUTE": "100000",
    "BOUGH_WARM_POOL": "1",
}


@pytest.fixture
def disk() -> Iterator[Disk]:
    require_cow()
    with create_disk("xfs") as made:
        yield made


@pytest.fixture
def program(disk: Disk) -> Iterator[Program]:
    # The host forgets with the power which user ids are lent, and a test beside this one may take them.
    made = Program(disk.folder / "home", {**VARIABLES, "BOUGH_PROJECT_UIDS": str(list(reserve_uid_range()))})
    yield made
    made.clean_up()


class Answered:
    """What the platform said before the power was cut, and what was committed in its databases."""

    def __init__(self, home: Path) -> None:
        self._sockets = Settings(home=home).sockets
        self.projects: dict[str, dict[str, Any]] = {}
        self.asked: set[str] = set()  # to be deleted; the answer may have been cut off
        self.deleted: set[str] = set()
        self.rows: dict[str, set[int]] = {}

    def address(self, project: str) -> ComputeAddress:
        return ComputeAddress(host=str(self._sockets / self.projects[project]["endpoints"][0]["id"]), port=5432)

    async def create(self, client: httpx2.AsyncClient) -> None:
        answer = await client.post("projects", json={"project": {}})
        if answer.status_code == 201:
            made = answer.json()
            self.projects[made["project"]["id"]] = made

    async def delete(self, client: httpx2.AsyncClient, project: str) -> None:
        self.asked.add(project)
        if (await client.delete(f"projects/{project}")).status_code == 200:
            self.deleted.add(project)

    async def write(self, project: str) -> None:
        """Until it is cut off."""
        rows = self.rows.setdefault(project, set())
        with suppress(
            OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError
        ):
            async with open_connection(self.address(project)) as db:
                await db.execute("create table if not exists kept (n bigint primary key)")
                for n in range(len(rows), 10_000):
                    await db.execute("insert into kept values ($1)", n)
                    rows.add(n)


async def cut_in_the_middle(said: dict[str, Any], answered: Answered, disk: Disk, dice: random.Random) -> None:
    """Several requests at once; the power goes at the first answer, or soon after it."""
    headers = {"Authorization": f"Bearer {said['api_key']}"}
    async with httpx2.AsyncClient(base_url=said["api_url"] + "/", headers=headers, timeout=30) as client:
        living = sorted(answered.projects.keys() - answered.deleted)
        writing = [asyncio.create_task(answered.write(project)) for project in living[:2]]
        asking = [asyncio.create_task(answered.create(client)) for _ in range(AT_ONCE)]
        asking += [asyncio.create_task(answered.delete(client, project)) for project in living[3:4]]
        await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(dice.choice((0, 0, 0.05, 0.3)))
        disk.cut_power()
        for task in (*asking, *writing):
            task.cancel()
        await asyncio.gather(*asking, *writing, return_exceptions=True)


def go_down(pids: list[int], disk: Disk, program: Program) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(map(is_alive, pids)):
        pass
    simulate_power_cut(disk, Settings(home=program.home))


async def all_ended(said: dict[str, Any]) -> None:
    async with httpx2.AsyncClient(base_url=said["api_url"].removesuffix("/api/v2"), timeout=30) as client:
        while True:
            if not (await client.get("/healthz")).json()["operations_open"]:
                return
            await asyncio.sleep(0.05)


def rows_of(home: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{home / 'store.db'}?mode=ro", uri=True)) as store:
        return store.execute(query).fetchall()


@pytest.mark.timeout(1800)
async def test_what_was_answered_is_true_after_the_power_was_cut(
    program: Program, disk: Disk, is_long_run: bool
) -> None:
    dice = random.Random(20261115)
    answered = Answered(program.home)
    for _ in range(LONG_CUTS if is_long_run else CUTS):
        said = program.up()
        await all_ended(said)
        now = program.status()
        pids = [program.supervisor_pid(), now["control_pid"], *(worker["pid"] for worker in now["gateway_workers"])]
        await cut_in_the_middle(said, answered, disk, dice)
        go_down(pids, disk, program)

    said = program.up()
    await all_ended(said)
    home = program.home
    assert rows_of(home, "select id from operations where status not in ('finished', 'skipped')") == []
    assert rows_of(home, "select id from branches where state <> 'ready'") == []
    there = {row[0] for row in rows_of(home, "select id from projects where deleted_at is null")}
    assert answered.projects.keys() <= {row[0] for row in rows_of(home, "select id from projects")}
    assert answered.projects.keys() - answered.asked <= there
    assert not answered.deleted & there
    for project in answered.projects.keys() & there:
        async with open_connection(answered.address(project)) as db:
            await db.execute("create table if not exists kept (n bigint primary key)")
            kept = {n for (n,) in await db.fetch("select n from kept")}
        assert answered.rows.get(project, set()) <= kept
    program("down")
    assert "\n".join(HomeConsistency(Settings(home=home)).find_inconsistencies()) == ""
