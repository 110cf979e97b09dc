"""Control or Postgres is killed during a restore. Afterwards the branch serves either its old or its restored data."""

import asyncio
import os
import random
import signal
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from journeys.served_project import TIMEOUT, ServedProject, fetch_value
from support.program import wait_until

ENDED = {"finished", "failed", "cancelled", "skipped"}
SUM = "select coalesce(sum(n), 0) from rows_of_rounds"


def _request(project: ServedProject, method: str, path: str, **options: Any) -> httpx2.Response:
    """Repeats a request while control does not answer or other operations hold the lock."""

    def send() -> httpx2.Response | None:
        with suppress(httpx2.TransportError):
            response = project.api.request(method, path, **options)
            return None if response.status_code in (423, 503) else response
        return None

    return wait_until(send, TIMEOUT)


def _wait_for_operations(project: ServedProject) -> None:
    path = f"{project.project_path}/operations?limit=20"

    def is_settled() -> bool | None:
        with suppress(httpx2.TransportError, httpx2.HTTPStatusError):
            operations = project.api.get(path).raise_for_status().json()["operations"]
            return all(each["status"] in ENDED for each in operations) or None
        return None

    wait_until(is_settled, TIMEOUT)


async def _fetch_value_with_retries(project: ServedProject, statement: str) -> Any:
    """Repeats the query for a while, because the compute may have to start again."""
    for _ in range(100):
        with suppress(psycopg.OperationalError):
            return await project.fetch_value(statement)
        await asyncio.sleep(0.2)
    return await project.fetch_value(statement)


async def _execute(project: ServedProject, statement: str) -> None:
    async with await project.connect_to(project.uri) as session:
        await session.execute(statement.encode())


def _list_postgres_pids(project: ServedProject) -> list[int]:
    """Lists the running Postgres servers of the home, including those in recovery."""
    pids = []
    for file in project.settings.home.glob("volumes/vol-*/data/postmaster.pid"):
        with suppress(OSError, ValueError, IndexError):
            pid = int(file.read_text().split()[0])
            if Path(f"/proc/{pid}").exists():
                pids.append(pid)
    return pids


@pytest.mark.parametrize("victim", ["control", "postgres"])
async def test_a_restore_that_was_cut_off_leaves_the_old_or_the_new(
    project_on_own_platform: ServedProject, victim: str, is_long_run: bool
) -> None:
    rng = random.Random(f"restore {victim}")
    project = project_on_own_platform
    await _execute(project, "create table rows_of_rounds (n int)")
    branch = project.creation_response["branch"]["id"]
    path = f"{project.project_path}/branches/{branch}"
    for number in range(8 if is_long_run else 2):
        before = await _fetch_value_with_retries(project, SUM)
        await _execute(project, "insert into rows_of_rounds values (1)")
        restore_point = datetime.now(UTC)
        await asyncio.sleep(0.05)
        await _execute(project, "insert into rows_of_rounds values (1000)")
        body = {
            "source_branch_id": branch,
            "source_timestamp": restore_point.isoformat(),
            "preserve_under_name": f"kept {victim} {number}",
        }
        restore_response = _request(project, "POST", f"{path}/restore", json=body)
        assert restore_response.status_code == 200, restore_response.text
        await asyncio.sleep(rng.uniform(0, 1.2))
        await _kill(project, victim)
        await asyncio.to_thread(_wait_for_operations, project)
        operation = next(each for each in restore_response.json()["operations"] if each["action"] == "create_timeline")
        result = _request(project, "GET", f"{project.project_path}/operations/{operation['id']}").json()
        expected = before + 1 if result["operation"]["status"] == "finished" else before + 1001
        assert await _fetch_value_with_retries(project, SUM) == expected, result
        named_branches = _request(project, "GET", f"{project.project_path}/branches?search=kept").json()["branches"]
        states = [each["current_state"] for each in named_branches if each["name"] == body["preserve_under_name"]]
        assert states == (["ready"] if result["operation"]["status"] == "finished" else [])


async def _kill(project: ServedProject, victim: str) -> None:
    if victim == "control":
        control_pid = int(project.bough.status()["control_pid"])
        os.kill(control_pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: project.bough.status()["control_pid"] not in {None, control_pid})
        return
    for pid in _list_postgres_pids(project):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_clients_are_told_and_find_the_restored_branch_at_the_same_address(
    project_on_own_platform: ServedProject,
) -> None:
    project = project_on_own_platform
    await _execute(project, "create table t as select 1 as n")
    restore_point = datetime.now(UTC)
    await asyncio.sleep(0.05)
    await _execute(project, "drop table t")
    idle = await project.connect()
    await fetch_value(idle, "select 1")
    branch = project.creation_response["branch"]["id"]
    body = {"source_branch_id": branch, "source_timestamp": restore_point.isoformat(), "preserve_under_name": "dropped"}
    path = f"{project.project_path}/branches/{branch}/restore"
    assert _request(project, "POST", path, json=body).status_code == 200
    await asyncio.to_thread(_wait_for_operations, project)
    with pytest.raises(psycopg.OperationalError, match="restored") as refusal:
        await fetch_value(idle, "select 1")
    assert refusal.value.sqlstate == "57P01"
    assert await project.fetch_value("select n from t") == 1
