"""Control is killed with SIGKILL at random moments of project creations and deletions.

After the last restart every operation ends, no row keeps a transitional state, no folder or process is orphaned, and
no committed data is lost.
"""

import asyncio
import os
import random
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bough.config import Settings
from bough.operations.crashes import MAX_CRASHES
from journeys.program_store import read_store
from support.platform import install_templates, temporary_folder
from support.program import Program, wait_until

LONG_KILLS, SHORT_KILLS = 50, 3
SPARES = 2


@pytest.fixture
def program() -> Iterator[Program]:
    with temporary_folder() as folder:
        install_templates(folder / "home")
        variables = {
            "BOUGH_SUSPEND_TIMEOUT_DEFAULT": "86400",  # the long run waits for as many computes as projects
            "BOUGH_RECOVERABLE_SECONDS": "0",
            "BOUGH_FREE_SPACE_FLOOR": "0",
            "BOUGH_RATE_PER_MINUTE": "100000",
            "BOUGH_WARM_POOL": str(SPARES),
        }
        created = Program(folder / "home", variables)
        yield created
        created.clean_up()


class RandomClient:
    """Creates and deletes projects while control is killed repeatedly."""

    def __init__(self, url: str, key: str, rng: random.Random) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._client = httpx2.AsyncClient(base_url=url + "/", headers=headers, timeout=30, verify=False)
        self._rng = rng

    async def request_until_answered(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Repeats a request until control answers it."""
        while True:
            try:
                response = await self._client.request(method, path, **options)
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
                continue
            if response.status_code not in (423, 429, 503):
                return response
            await asyncio.sleep(0.1)

    async def send_random_request(self) -> None:
        """Creates or deletes a project, without retries. Control may be killed at any point of it."""
        try:
            if self._rng.random() < 0.6:
                await self._client.post("projects", json={"project": {}})
            else:
                projects = (await self._client.get("projects", params={"limit": 100})).json()["projects"]
                await self._client.delete(f"projects/{self._rng.choice(projects)['id']}")
        except (httpx2.TransportError, IndexError):
            return

    async def run_round_with_kill(self, control_pid: int) -> None:
        requests = [asyncio.create_task(self.send_random_request()) for _ in range(self._rng.randint(1, 4))]
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        os.kill(control_pid, signal.SIGKILL)
        await asyncio.gather(*requests)

    async def wait_for_all_operations(self) -> list[dict[str, Any]]:
        """Waits until no operation is open. Returns the remaining projects."""
        while True:
            health = (await self.request_until_answered("GET", "../../healthz")).json()
            projects: list[dict[str, Any]] = (
                await self.request_until_answered("GET", "projects", params={"limit": 400})
            ).json()["projects"]
            if health["operations_open"] == 0 and health["computes_running"] == len(projects):
                return projects
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        await self._client.aclose()


def list_served_volumes(home: Path) -> set[str]:
    """Lists the volumes in which a postmaster runs, from /proc."""
    volumes = set()
    for entry in Path("/proc").iterdir():
        try:
            working_directory = (entry / "cwd").readlink()
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) if entry.name.isdigit() else 0
        except (OSError, ValueError, IndexError):
            continue
        if working_directory.is_relative_to(home / "volumes") and not has_working_directory(parent, working_directory):
            volumes.add(working_directory.parent.name)
    return volumes


def list_volume_folders(home: Path) -> set[str]:
    return {entry.name for entry in (home / "volumes").iterdir() if not entry.is_symlink()}


def separate_spares(names: Iterable[str]) -> tuple[set[str], set[str]]:
    """Separates the names of the warm pool from others; a project id may look like `warm-hall-15561598`."""
    all_names = set(names)
    spares = {name for name in all_names if re.fullmatch(r"warm-[0-9a-f]{12}", name)}
    return spares, all_names - spares


def has_working_directory(pid: int, working_directory: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == working_directory
    except OSError:
        return False


@pytest.mark.timeout(1800)
async def test_killing_control_at_any_moment_loses_and_orphans_nothing(program: Program, is_long_run: bool) -> None:
    rng = random.Random(20261115)
    up_output = program.up()
    client = RandomClient(up_output["api_url"], up_output["api_key"], rng)
    kept_id = (await client.request_until_answered("POST", "projects", json={"project": {"name": "kept"}})).json()[
        "project"
    ]["id"]
    for number in range(1, (LONG_KILLS if is_long_run else SHORT_KILLS) + 1):
        pid = program.status()["control_pid"]
        await client.run_round_with_kill(pid)
        program.wait_for_restart(pid)
        if number % (MAX_CRASHES - 1) == 0:  # one more crash during the same step may set its operation aside
            await client.wait_for_all_operations()
    projects = await client.wait_for_all_operations()
    home = program.home
    wait_until(
        lambda: not read_store(home, "select 1 from projects where deleted_at is not null and purged_at is null")
    )
    projects = await client.wait_for_all_operations()
    await client.close()

    assert read_store(home, "select id from operations where ended_at is null") == []
    assert read_store(home, "select distinct status from operations where status not in ('finished', 'skipped')") == []
    assert read_store(home, "select id from branches where state <> 'ready'") == []
    assert read_store(home, "select id from endpoints where state <> 'active' or pending_state is not null") == []
    volumes = {row[0] for row in read_store(home, "select id from volumes")}
    assert len(volumes) == len(projects)
    # A spare may still be under construction.
    wait_until(lambda: len(separate_spares(list_volume_folders(home))[0]) == SPARES)
    assert separate_spares(list_volume_folders(home))[1] == volumes
    assert all(link.resolve().name in volumes for link in (home / "volumes").iterdir() if link.is_symlink())
    assert separate_spares(list_served_volumes(home))[1] == volumes
    if os.geteuid() == 0:
        _, user_id_owners = separate_spares(str(link.readlink()) for link in (home / "uids").iterdir())
        assert user_id_owners == {project["id"] for project in projects}
    if kept_id in {project["id"] for project in projects}:
        assert "kept" in {project["name"] for project in projects}
    sockets = Settings(home=home).sockets
    assert {entry.name for entry in sockets.iterdir() if entry.name.startswith("ep-")} == {
        row[0] for row in read_store(home, "select id from endpoints")
    }
