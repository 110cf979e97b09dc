"""The life cycle of a project on the whole platform, with the store in SQLite and in PostgreSQL."""

import os
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from bough import clock
from bough.domain.operation import OperationStatus
from journeys.platform_actions import run_tasks_and_operations
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import BACKENDS


@pytest.fixture(params=BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as opened:
        yield opened


def read_postmaster_pid(platform: Platform, volume: str) -> int:
    return int((platform.settings.home / "volumes" / volume / "data" / "postmaster.pid").read_text().split()[0])


async def get_volume_id(platform: Platform, created: dict[str, Any]) -> str:
    async with platform.store.read() as rows:
        branch = await rows.branches.get(created["project"]["id"], created["branch"]["id"])
    assert branch is not None
    return branch.volume_id


async def test_create_use_delete_recover_and_purge(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await platform.create_ready_project(name="life")
    project_id = created["project"]["id"]
    assert "PostgreSQL 17" in await platform.query(created, "select version()")
    await platform.query(created, "create table t as select 42 as answer")
    assert [operation.status for operation in await platform.list_operations(project_id)] == [
        OperationStatus.FINISHED
    ] * 2

    assert (await platform.client.delete(f"{API}/projects/{project_id}")).status_code == 200
    await platform.run_operations()
    assert not (await platform.engine.observe()).running_endpoints
    assert (await platform.client.get(f"{API}/projects/{project_id}")).status_code == 404

    assert (await platform.client.post(f"{API}/projects/{project_id}/recover")).status_code == 200
    await platform.run_operations()
    assert await platform.query(created, "select answer from t") == 42

    assert (await platform.client.delete(f"{API}/projects/{project_id}")).status_code == 200
    await platform.run_operations()
    later = clock.now() + timedelta(days=8)
    monkeypatch.setattr(clock, "now", lambda: later)
    await run_tasks_and_operations(platform)
    observed = await platform.engine.observe()
    assert (observed.volumes, observed.running_endpoints) == (frozenset(), frozenset())
    assert list((platform.settings.home / "volumes").iterdir()) == []
    assert (await platform.client.post(f"{API}/projects/{project_id}/recover")).status_code == 404
    async with platform.store.read() as rows:
        assert await rows.branches.list_with_deleted(project_id) == []


async def test_a_crashed_compute_is_repaired_with_all_that_was_committed(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create table t as select generate_series(1, 1000) as n")
    os.kill(read_postmaster_pid(platform, await get_volume_id(platform, created)), signal.SIGKILL)
    while (await platform.engine.observe()).running_endpoints:
        pass
    await run_tasks_and_operations(platform)
    assert await platform.query(created, "select count(*) from t") == 1000
    last = (await platform.list_operations(created["project"]["id"]))[-1]
    assert (last.kind, last.status) == ("start_compute", OperationStatus.FINISHED)


async def test_sizes_are_measured(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create table t as select repeat('x', 1000) from generate_series(1, 2000)")
    await run_tasks_and_operations(platform)
    project = (await platform.client.get(f"{API}/projects/{created['project']['id']}")).json()["project"]
    assert project["synthetic_storage_size"] > 2_000_000


async def test_logical_replication_reaches_a_running_compute(platform: Platform) -> None:
    created = await platform.create_ready_project()
    assert await platform.query(created, "show wal_level") == "replica"
    change = {"project": {"settings": {"enable_logical_replication": True}}}
    response = await platform.client.patch(f"{API}/projects/{created['project']['id']}", json=change)
    assert [operation["action"] for operation in response.json()["operations"]] == ["apply_config"]
    await platform.run_operations()
    assert await platform.query(created, "show wal_level") == "logical"


async def test_room_that_goes_after_the_request_fails_the_work_with_a_sentence_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_platform() as platform:
        created = await platform.create_project()
        monkeypatch.setattr(
            "bough.engine.local.free_space.explain_shortage", lambda *_: "The disk has no free space left."
        )
        await platform.run_operations()
        create, start = await platform.list_operations(created["project"]["id"])
        assert (create.status, start.status) == (OperationStatus.FAILED, OperationStatus.CANCELLED)
        assert create.error is not None
        assert "space" in create.error
        assert list((platform.settings.home / "volumes").iterdir()) == []
        operations = (await platform.client.get(f"{API}/projects/{created['project']['id']}/operations")).json()[
            "operations"
        ]
        assert {operation["status"] for operation in operations} == {"failed", "cancelled"}
        assert (await platform.client.delete(f"{API}/projects/{created['project']['id']}")).status_code == 200
        await platform.run_operations()
