"""Control or Postgres is killed while a branch is restored: afterwards it has the old data or the new, and serves."""

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


def _request(one: ServedProject, method: str, path: str, **more: Any) -> httpx2.Response:
    """As somebody who asks again when nobody answers, or other work is in the way."""

    def answer() -> httpx2.Response | None:
        with suppress(httpx2.TransportError):
            said = one.api.request(method, path, **more)
            return None if said.status_code in (423, 503) else said
        return None

    return wait_until(answer, TIMEOUT)


def _until_settled(one: ServedProject) -> None:
    path = f"/projects/{one.creation_response['project']['id']}/operations?limit=20"

    def settled() -> bool | None:
        with suppress(httpx2.TransportError, httpx2.HTTPStatusError):
            operations = one.api.get(path).raise_for_status().json()["operations"]
            return all(each["status"] in ENDED for each in operations) or None
        return None

    wait_until(settled, TIMEOUT)


async def _value(one: ServedProject, statement: str) -> Any:
    """With patience: its compute may have to start again."""
    for _ in range(100):
        with suppress(psycopg.OperationalError):
            return await one.fetch_value(statement)
        await asyncio.sleep(0.2)
    return await one.fetch_value(statement)


async def _run(one: ServedProject, statement: str) -> None:
    async with await one.connect_to(one.uri) as session:
        await session.execute(statement.encode())


def _servers(one: ServedProject) -> list[int]:
    """Every Postgres of the home that lives, also those that recover."""
    found = []
    for file in one.settings.home.glob("volumes/vol-*/data/postmaster.pid"):
        with suppress(OSError, ValueError, IndexError):
            pid = int(file.read_text().split()[0])
            if Path(f"/proc/{pid}").exists():
                found.append(pid)
    return found


@pytest.mark.parametrize("victim", ["control", "postgres"])
async def test_a_restore_that_was_cut_off_leaves_the_old_or_the_new(
    project_on_own_platform: ServedProject, victim: str, is_long_run: bool
) -> None:
    dice = random.Random(f"restore {victim}")
    one = project_on_own_platform
    await _run(one, "create table rows_of_rounds (n int)")
    branch = one.creation_response["branch"]["id"]
    path = f"/projects/{one.creation_response['project']['id']}/branches/{branch}"
    for number in range(8 if is_long_run else 2):
        before = await _value(one, SUM)
        await _run(one, "insert into rows_of_rounds values (1)")
        moment = datetime.now(UTC)
        await asyncio.sleep(0.05)
        await _run(one, "insert into rows_of_rounds values (1000)")
        body = {
            "source_branch_id": branch,
            "source_timestamp": moment.isoformat(),
            "preserve_under_name": f"kept {victim} {number}",
        }
        asked = _request(one, "POST", f"{path}/restore", json=body)
        assert asked.status_code == 200, asked.text
        await asyncio.sleep(dice.uniform(0, 1.2))
        await _kill(one, victim)
        await asyncio.to_thread(_until_settled, one)
        operation = next(each for each in asked.json()["operations"] if each["action"] == "create_timeline")
        seen = _request(
            one, "GET", f"/projects/{one.creation_response['project']['id']}/operations/{operation['id']}"
        ).json()
        expected = before + 1 if seen["operation"]["status"] == "finished" else before + 1001
        assert await _value(one, SUM) == expected, seen
        named = _request(one, "GET", f"/projects/{one.creation_response['project']['id']}/branches?search=kept").json()[
            "branches"
        ]
        kept = [each["current_state"] for each in named if each["name"] == body["preserve_under_name"]]
        assert kept == (["ready"] if seen["operation"]["status"] == "finished" else [])


async def _kill(one: ServedProject, victim: str) -> None:
    if victim == "control":
        killed = int(one.bough.status()["control_pid"])
        os.kill(killed, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: one.bough.status()["control_pid"] not in {None, killed})
        return
    for pid in _servers(one):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_clients_are_told_and_find_the_restored_branch_at_the_same_address(
    project_on_own_platform: ServedProject,
) -> None:
    one = project_on_own_platform
    await _run(one, "create table t as select 1 as n")
    moment = datetime.now(UTC)
    await asyncio.sleep(0.05)
    await _run(one, "drop table t")
    idle = await one.connect()
    await fetch_value(idle, "select 1")
    branch = one.creation_response["branch"]["id"]
    body = {"source_branch_id": branch, "source_timestamp": moment.isoformat(), "preserve_under_name": "dropped"}
    path = f"/projects/{one.creation_response['project']['id']}/branches/{branch}/restore"
    assert _request(one, "POST", path, json=body).status_code == 200
    await asyncio.to_thread(_until_settled, one)
    with pytest.raises(psycopg.OperationalError, match="restored") as ended:
        await fetch_value(idle, "select 1")
    assert ended.value.sqlstate == "57P01"
    assert await one.fetch_value("select n from t") == 1
