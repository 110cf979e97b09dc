"""Branches of a platform in this process: made, asked, and what their rows say."""

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


def project_path(made: Json) -> str:
    """The project that an answer is about."""
    project_id = made["project"]["id"] if "project" in made else made["branch"]["project_id"]
    return f"{API}/projects/{project_id}"


async def send_request(
    platform: Platform, method: str, path: str, *, status: int = 200, body: Json | None = None
) -> Json:
    """One request with the answer it must have."""
    answer = await platform.client.request(method, path, json=body)
    assert answer.status_code == status, f"{method} {path}: {answer.text}"
    return answer.json() if answer.content else {}


async def create_branch(platform: Platform, parent: Json, *, endpoint: bool = True, **fields: Any) -> Json:
    """A branch of the branch in an answer, made to the end, with a read-write endpoint or without."""
    made = await begin_branch(platform, parent, endpoint=endpoint, **fields)
    await platform.run_operations()
    return made


async def begin_branch(platform: Platform, parent: Json, *, endpoint: bool = True, **fields: Any) -> Json:
    """The same, with its work still to be done."""
    asked: Json = {"branch": {"parent_id": parent["branch"]["id"], **fields}}
    if endpoint:
        asked["endpoints"] = [{"type": "read_write"}]
    return await send_request(platform, "POST", f"{project_path(parent)}/branches", status=201, body=asked)


async def query(platform: Platform, made: Json, sql: str, role: str = "neondb_owner", database: str = "neondb") -> Any:
    """One value, from the first endpoint in an answer."""
    async with platform.connect(made["endpoints"][0]["id"], role, database) as client:
        return await client.fetchval(sql)


async def suspend_compute(platform: Platform, made: Json) -> None:
    await send_request(platform, "POST", f"{project_path(made)}/endpoints/{made['endpoints'][0]['id']}/suspend")
    await platform.run_operations()


async def kill_compute(platform: Platform, made: Json) -> None:
    """The server of the branch in an answer dies without a word."""
    branch = made["branch"]
    async with platform.store.read() as rows:
        found = await rows.branches.get(ProjectId(branch["project_id"]), BranchId(branch["id"]))
    assert found is not None
    pid_file = Folders(platform.settings).volumes / found.volume_id / "data" / "postmaster.pid"
    await kill_process(int(pid_file.read_text().split()[0]))


@contextmanager
def shift_clock(by: timedelta) -> Iterator[None]:
    """The platform's clock stands still there meanwhile."""
    moment = clock.now() + by
    with pytest.MonkeyPatch.context() as then:
        then.setattr(clock, "now", lambda: moment)
        yield
