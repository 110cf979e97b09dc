"""With too little free space, creating things fails before anything is written; other requests work."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest_asyncio

from support.api_app import NO_LIMITS, ApiApp
from support.api_client import create_caller
from support.platform import open_platform_in, temporary_folder
from support.requirements import require_root

MB = 1024**2


@contextmanager
def small_disk_folder() -> Iterator[Path]:
    require_root()
    with temporary_folder() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=711", "tmpfs", folder], check=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)


@pytest_asyncio.fixture(loop_scope="session")
async def small_disk() -> AsyncIterator[ApiApp]:
    """Creates a platform on a disk of 400 MB that keeps 100 MB free."""
    with small_disk_folder() as folder:
        async with open_platform_in(folder, free_space_floor=100 * MB, **NO_LIMITS) as platform:
            yield ApiApp(platform)


async def test_a_new_project_is_refused_until_there_is_room(small_disk: ApiApp) -> None:
    caller = await create_caller(small_disk)
    existing = await caller.create_ready_project()
    filler = small_disk.settings.home / "filler"
    _fill(filler, leaving=50 * MB)
    async with caller.client_for(small_disk, crashes=True) as client:
        once = {"Idempotency-Key": "once"}
        response = await client.post("/projects", json={"project": {"name": "second"}}, headers=once)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert response.json()["message"].startswith(
            f"The disk of {small_disk.settings.home} has 50 MB of free space, "
        )
        assert response.json()["message"].endswith(
            "less than free_space_floor (100 MB), so nothing new is created: free some space."
        )
        async with small_disk.services.store.read() as rows:
            assert await rows.projects.count() == 1
            assert await rows.operations.count_open() == 0
        renamed = await client.patch(f"/projects/{existing}", json={"project": {"name": "still served"}})
        assert renamed.status_code == 200

        filler.unlink()
        again = await client.post("/projects", json={"project": {"name": "second"}}, headers=once)
        assert again.status_code == 201
    assert await caller.list_project_names() == ["second", "still served"]


def _fill(file: Path, *, leaving: int) -> None:
    with file.open("wb") as filler:
        stats = os.statvfs(file)
        filler.write(bytes(stats.f_bavail * stats.f_frsize - leaving))
