"""Branches are created while clients write. Each has all rows committed before the request, and no client fails."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from bench import pgbench

from bough import clock
from bough.ids import EndpointId
from support import storage
from support.branches import begin_branch, query
from support.data_checks import find_corruption
from support.platform import Platform, open_platform_in, temporary_folder

WRITERS = 4


class Writer:
    """A client that inserts consecutive numbers and records the last committed one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.committed = 0

    async def write(self, platform: Platform, created: dict[str, Any]) -> None:
        async with platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
            for n in itertools.count(1):
                await client.execute("insert into written values ($1, $2)", self.number, n)
                self.committed = n


async def _start_pgbench(address: str) -> asyncio.subprocess.Process:
    """Starts pgbench, which runs until it is terminated or gets an error."""
    options = ["--no-vacuum", "--client", "2", "--jobs", "1", "--time", "3600", "--failures-detailed"]
    target = ["--host", address, "--username", "neondb_owner", "neondb"]
    return await asyncio.create_subprocess_exec(
        pgbench.find_pgbench(), *options, *target, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )


@contextmanager
def _create_storage_folder(driver: str) -> Iterator[Path]:
    """Creates a folder for a home whose volumes use the storage driver."""
    if driver == "plain":
        with temporary_folder() as folder:
            yield folder
    else:
        with storage.create_empty_home() as home:
            storage.create_home_image(home, "xfs" if driver == "reflink" else "btrfs")
            yield home.parent


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "driver", ["reflink", *(pytest.param(each, marks=pytest.mark.long) for each in ("btrfs", "plain"))]
)
async def test_branches_of_a_parent_under_load(driver: str, is_long_run: bool) -> None:
    count = 50 if is_long_run else 1
    with _create_storage_folder(driver) as folder:
        async with open_platform_in(folder, storage=driver, recoverable_branch_seconds=0) as platform:
            assert platform.engine.capabilities().storage_driver == driver
            created = await platform.create_ready_project()
            await platform.query(created, "create table written (writer int, n int, primary key (writer, n))")
            address = await platform.engine.find_address(EndpointId(created["endpoints"][0]["id"]))
            assert address is not None
            pgbench.initialize(pgbench.ServerTarget(Path(address.host), "neondb_owner", "neondb"), scale=2)
            pgbench_process = await _start_pgbench(address.host)
            writers = [Writer(number) for number in range(WRITERS)]
            tasks = [asyncio.create_task(writer.write(platform, created)) for writer in writers]
            try:
                async with platform.background_runner():
                    for _ in range(count):
                        await _check_branch(platform, created, writers)
                        await _remove_history(platform, created)
                        assert pgbench_process.returncode is None, await pgbench_process.communicate()
                        assert not any(task.done() for task in tasks), "a writer failed"
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                with suppress(ProcessLookupError):
                    pgbench_process.terminate()
                _, stderr = await pgbench_process.communicate()
            assert b"error" not in stderr.lower(), stderr
            assert await find_corruption(address) == []


async def _check_branch(platform: Platform, created: dict[str, Any], writers: list[Writer]) -> None:
    before = {writer.number: writer.committed for writer in writers}
    branch = await begin_branch(platform, created)
    endpoint = EndpointId(branch["endpoints"][0]["id"])
    await platform.inner.gateway_api.wakes.wake(endpoint)
    address = await platform.engine.find_address(endpoint)
    assert address is not None
    async with platform.connect(endpoint, "neondb_owner", "neondb") as client:
        found = {row[0]: (row[1], row[2]) for row in await client.fetch(_FOUND)}
        assert await client.fetchval(_BALANCED)
    for number, committed in before.items():
        highest, rows = found.get(number, (0, 0))
        assert highest >= committed, f"writer {number} had committed {committed}, the branch has {highest}"
        assert rows == highest, f"the branch has {rows} of {highest} numbers of writer {number}"
    assert await find_corruption(address) == []
    await query(platform, branch, "insert into written values (99, 1)")
    response = await platform.client.delete(
        f"/api/v2/projects/{created['project']['id']}/branches/{branch['branch']['id']}"
    )
    assert response.status_code == 200, response.text


async def _remove_history(platform: Platform, created: dict[str, Any]) -> None:
    """Removes archived WAL. The home is in memory, where this WAL counts towards the memory limit of the compute."""
    async with platform.store.read() as rows:
        branch = await rows.branches.get(created["project"]["id"], created["branch"]["id"])
    assert branch is not None
    await platform.engine.apply_retention(branch.volume_id, clock.now())


_BALANCED = "select sum(abalance) = (select sum(bbalance) from pgbench_branches) from pgbench_accounts"
_FOUND = "select writer, max(n), count(*) from written group by writer"
