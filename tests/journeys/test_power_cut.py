"""The power is cut right after the platform has answered. After the next start every acknowledged change is present."""

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from bough.config import Settings
from bough.domain.gateway_protocol import ComputeAddress
from journeys.program_store import read_store
from support.engine_home import open_connection
from support.folders import reserve_uid_range
from support.home_consistency import HomeConsistency
from support.power_cut import Disk, create_disk, simulate_power_cut
from support.program import Program, is_alive
from support.requirements import require_cow

CUTS, LONG_CUTS = 2, 20
CONCURRENT_REQUESTS = 4
VARIABLES = {
    "BOUGH_RECOVERABLE_SECONDS": "0",
    "BOUGH_FREE_SPACE_FLOOR": "0",
    "BOUGH_RATE_PER_MINUTE": "100000",
    "BOUGH_WARM_POOL": "1",
}


@pytest.fixture
def disk() -> Iterator[Disk]:
    require_cow()
    with create_disk("xfs") as created:
        yield created


@pytest.fixture
def program(disk: Disk) -> Iterator[Program]:
    # The power cut also loses the reservations of user ids, and a parallel test could take the same ids.
    created = Program(disk.folder / "home", {**VARIABLES, "BOUGH_PROJECT_UIDS": str(list(reserve_uid_range()))})
    yield created
    created.clean_up()


class AcknowledgedState:
    """The projects that the API acknowledged and the rows that were committed before the power cut."""

    def __init__(self, home: Path) -> None:
        self._sockets = Settings(home=home).sockets
        self.projects: dict[str, dict[str, Any]] = {}
        self.deletion_requested: set[str] = set()  # the response may have been lost
        self.deleted: set[str] = set()
        self.rows: dict[str, set[int]] = {}

    def make_address(self, project: str) -> ComputeAddress:
        return ComputeAddress(host=str(self._sockets / self.projects[project]["endpoints"][0]["id"]), port=5432)

    async def create(self, client: httpx2.AsyncClient) -> None:
        response = await client.post("projects", json={"project": {}})
        if response.status_code == 201:
            created = response.json()
            self.projects[created["project"]["id"]] = created

    async def delete(self, client: httpx2.AsyncClient, project: str) -> None:
        self.deletion_requested.add(project)
        if (await client.delete(f"projects/{project}")).status_code == 200:
            self.deleted.add(project)

    async def write(self, project: str) -> None:
        """Inserts rows until the connection fails."""
        rows = self.rows.setdefault(project, set())
        with suppress(
            OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError
        ):
            async with open_connection(self.make_address(project)) as connection:
                await connection.execute("create table if not exists kept (n bigint primary key)")
                for n in range(len(rows), 10_000):
                    await connection.execute("insert into kept values ($1)", n)
                    rows.add(n)


async def cut_power_during_requests(
    up_output: dict[str, Any], acknowledged: AcknowledgedState, disk: Disk, rng: random.Random
) -> None:
    """Sends several requests at the same time, and cuts the power at the first response or soon after it."""
    headers = {"Authorization": f"Bearer {up_output['api_key']}"}
    async with httpx2.AsyncClient(base_url=up_output["api_url"] + "/", headers=headers, timeout=30) as client:
        existing = sorted(acknowledged.projects.keys() - acknowledged.deleted)
        writers = [asyncio.create_task(acknowledged.write(project)) for project in existing[:2]]
        requests = [asyncio.create_task(acknowledged.create(client)) for _ in range(CONCURRENT_REQUESTS)]
        requests += [asyncio.create_task(acknowledged.delete(client, project)) for project in existing[3:4]]
        await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(rng.choice((0, 0, 0.05, 0.3)))
        disk.cut_power()
        for task in (*requests, *writers):
            task.cancel()
        await asyncio.gather(*requests, *writers, return_exceptions=True)


def kill_and_remount(pids: list[int], disk: Disk, program: Program) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(map(is_alive, pids)):
        pass
    simulate_power_cut(disk, Settings(home=program.home))


async def wait_for_all_operations(up_output: dict[str, Any]) -> None:
    async with httpx2.AsyncClient(base_url=up_output["api_url"].removesuffix("/api/v2"), timeout=30) as client:
        while True:
            if not (await client.get("/healthz")).json()["operations_open"]:
                return
            await asyncio.sleep(0.05)


@pytest.mark.timeout(1800)
async def test_what_was_answered_is_true_after_the_power_was_cut(
    program: Program, disk: Disk, is_long_run: bool
) -> None:
    rng = random.Random(20261115)
    acknowledged = AcknowledgedState(program.home)
    for _ in range(LONG_CUTS if is_long_run else CUTS):
        up_output = program.up()
        await wait_for_all_operations(up_output)
        status = program.status()
        pids = [
            program.supervisor_pid(),
            status["control_pid"],
            *(worker["pid"] for worker in status["gateway_workers"]),
        ]
        await cut_power_during_requests(up_output, acknowledged, disk, rng)
        kill_and_remount(pids, disk, program)

    up_output = program.up()
    await wait_for_all_operations(up_output)
    home = program.home
    assert read_store(home, "select id from operations where status not in ('finished', 'skipped')") == []
    assert read_store(home, "select id from branches where state <> 'ready'") == []
    existing_ids = {row[0] for row in read_store(home, "select id from projects where deleted_at is null")}
    assert acknowledged.projects.keys() <= {row[0] for row in read_store(home, "select id from projects")}
    assert acknowledged.projects.keys() - acknowledged.deletion_requested <= existing_ids
    assert not acknowledged.deleted & existing_ids
    for project in acknowledged.projects.keys() & existing_ids:
        async with open_connection(acknowledged.make_address(project)) as connection:
            await connection.execute("create table if not exists kept (n bigint primary key)")
            kept = {n for (n,) in await connection.fetch("select n from kept")}
        assert acknowledged.rows.get(project, set()) <= kept
    program("down")
    assert "\n".join(HomeConsistency(Settings(home=home)).find_inconsistencies()) == ""
