"""Control is killed with SIGKILL at random moments of project creations and deletions.

After the last restart every operation ends, no row is stuck, no folder or process is orphaned,
and nothing that was committed is lost.
"""

import asyncio
import os
import random
import re
import signal
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bough.config import Settings
from support.platform import install_templates, temporary_folder
from support.program import Program, wait_until

LONG_KILLS, SHORT_KILLS = 50, 3
SPARES = 2


@pytest.fixture
def program() -> Iterator[Program]:
    with temporary_folder() as folder:
        install_templates(folder / "home")
        variables = {
            "BOUGH_RECOVERABLE_SECONDS": "0",
            "BOUGH_FREE_SPACE_FLOOR": "0",
            "BOUGH_RATE_PER_MINUTE": "100000",
            "BOUGH_WARM_POOL": str(SPARES),
        }
        made = Program(folder / "home", variables)
        yield made
        made.clean_up()


class Storm:
    """Creates and deletes projects while the server dies again and again."""

    def __init__(self, url: str, key: str, dice: random.Random) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._client = httpx2.AsyncClient(base_url=url + "/", headers=headers, timeout=30, verify=False)
        self._dice = dice

    async def calm(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """A call that is repeated until the server answers it."""
        while True:
            try:
                answer = await self._client.request(method, path, **options)
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
                continue
            if answer.status_code not in (423, 429, 503):
                return answer
            await asyncio.sleep(0.1)

    async def some_work(self) -> None:
        """One creation or deletion, at once and unrepeated: it may be cut anywhere."""
        try:
            if self._dice.random() < 0.6:
                await self._client.post("projects", json={"project": {}})
            else:
                listed = (await self._client.get("projects", params={"limit": 100})).json()["projects"]
                await self._client.delete(f"projects/{self._dice.choice(listed)['id']}")
        except (httpx2.TransportError, IndexError):
            return

    async def round(self, control_pid: int) -> None:
        work = [asyncio.create_task(self.some_work()) for _ in range(self._dice.randint(1, 4))]
        await asyncio.sleep(self._dice.uniform(0, 0.5))
        os.kill(control_pid, signal.SIGKILL)
        await asyncio.gather(*work)

    async def all_ended(self) -> list[dict[str, Any]]:
        """The projects that are left, when no operation is open."""
        while True:
            health = (await self.calm("GET", "../../healthz")).json()
            listed: list[dict[str, Any]] = (await self.calm("GET", "projects", params={"limit": 400})).json()[
                "projects"
            ]
            if health["operations_open"] == 0 and health["computes_running"] == len(listed):
                return listed
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        await self._client.aclose()


def _rows(home: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{home / 'store.db'}?mode=ro", uri=True)) as store:
        return store.execute(query).fetchall()


def _postmasters(home: Path) -> set[str]:
    """Volumes that some living postmaster serves, read off the machine itself."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            where = (entry / "cwd").readlink()
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) if entry.name.isdigit() else 0
        except (OSError, ValueError, IndexError):
            continue
        if where.is_relative_to(home / "volumes") and not _serves(parent, where):
            found.add(where.parent.name)
    return found


def _folders(home: Path) -> set[str]:
    return {entry.name for entry in (home / "volumes").iterdir() if not entry.is_symlink()}


def _told_apart(names: Iterable[str]) -> tuple[set[str], set[str]]:
    """Those of the warm pool, and the others: a project may be called `warm-hall-15561598`."""
    known = set(names)
    spares = {name for name in known if re.fullmatch(r"warm-[0-9a-f]{12}", name)}
    return spares, known - spares


def _serves(pid: int, where: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == where
    except OSError:
        return False


@pytest.mark.timeout(1800)
async def test_killing_control_at_any_moment_loses_and_orphans_nothing(program: Program, is_long_run: bool) -> None:
    dice = random.Random(20261115)
    said = program.up()
    storm = Storm(said["api_url"], said["api_key"], dice)
    kept = (await storm.calm("POST", "projects", json={"project": {"name": "kept"}})).json()["project"]["id"]
    for _ in range(LONG_KILLS if is_long_run else SHORT_KILLS):
        pid = program.status()["control_pid"]
        await storm.round(pid)
        program.wait_for_restart(pid)
    left = await storm.all_ended()
    home = program.home
    wait_until(lambda: not _rows(home, "select 1 from projects where deleted_at is not null and purged_at is null"))
    left = await storm.all_ended()
    await storm.close()

    assert _rows(home, "select id from operations where ended_at is null") == []
    assert _rows(home, "select distinct status from operations where status not in ('finished', 'skipped')") == []
    assert _rows(home, "select id from branches where state <> 'ready'") == []
    assert _rows(home, "select id from endpoints where state <> 'active' or pending_state is not null") == []
    volumes = {row[0] for row in _rows(home, "select id from volumes")}
    assert len(volumes) == len(left)
    wait_until(lambda: len(_told_apart(_folders(home))[0]) == SPARES)  # one may be in the making just now
    assert _told_apart(_folders(home))[1] == volumes
    assert all(link.resolve().name in volumes for link in (home / "volumes").iterdir() if link.is_symlink())
    assert _told_apart(_postmasters(home))[1] == volumes
    if os.geteuid() == 0:
        _, owners = _told_apart(str(link.readlink()) for link in (home / "uids").iterdir())
        assert owners == {project["id"] for project in left}
    if kept in {project["id"] for project in left}:
        assert "kept" in {project["name"] for project in left}
    sockets = Settings(home=home).sockets
    assert {entry.name for entry in sockets.iterdir() if entry.name.startswith("ep-")} == {
        row[0] for row in _rows(home, "select id from endpoints")
    }
