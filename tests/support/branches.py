"""Creates, queries, suspends and kills branches of a platform in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from bough import clock
from bough.engine.local.folders import Folders
from bough.ids import BranchId, ProjectId
from support.engine_home import kill_process
from support.platform import API, Platform

Json = dict[str, Any]


def project_path(created: Json) -> str:
    """Return the path of the project in a response."""
    project_id = created["project"]["id"] if "project" in created else created["branch"]["project_id"]
    return f"{API}/projects/{project_id}"


async def send_request(
    platform: Platform, method: str, path: str, *, status: int = 200, body: Json | None = None
) -> Json:
    """Send a request and check the status of the response."""
    response = await platform.client.request(method, path, json=body)
    assert response.status_code == status, f"{method} {path}: {response.text}"
    return response.json() if response.content else {}


async def create_branch(platform: Platform, parent: Json, *, endpoint: bool = True, **fields: Any) -> Json:
    """Create a child of the branch in a response, with or without a read-write endpoint, and run its operations."""
    created = await begin_branch(platform, parent, endpoint=endpoint, **fields)
    await platform.run_operations()
    return created


async def begin_branch(platform: Platform, parent: Json, *, endpoint: bool = True, **fields: Any) -> Json:
    """Request the branch without running its operations."""
    body: Json = {"branch": {"parent_id": parent["branch"]["id"], **fields}}
    if endpoint:
        body["endpoints"] = [{"type": "read_write"}]
    return await send_request(platform, "POST", f"{project_path(parent)}/branches", status=201, body=body)


async def query(
    platform: Platform, created: Json, sql: str, role: str = "neondb_owner", database: str = "neondb"
) -> Any:
    """Return one value from the first endpoint in a response."""
    async with platform.connect(created["endpoints"][0]["id"], role, database) as client:
        return await client.fetchval(sql)


async def suspend_compute(platform: Platform, created: Json) -> None:
    await send_request(platform, "POST", f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}/suspend")
    await platform.run_operations()


async def kill_compute(platform: Platform, created: Json) -> None:
    """Kill the Postgres server of the branch in a response."""
    branch = created["branch"]
    async with platform.store.read() as rows:
        row = await rows.branches.get(ProjectId(branch["project_id"]), BranchId(branch["id"]))
    assert row is not None
    pid_file = Folders(platform.settings).volumes / row.volume_id / "data" / "postmaster.pid"
    await kill_process(int(pid_file.read_text().split()[0]))


@contextmanager
def shift_clock(by: timedelta) -> Iterator[None]:
    """Stop the platform's clock at a shifted time."""
    shifted = clock.now() + by
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", lambda: shifted)
        yield
