"""Computes without activity sleep after their timeout; work, and the wish never to sleep, keep them awake."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import Endpoint, EndpointState
from bough.domain.gateway_protocol import EndpointReport
from bough.domain.operation import OperationAction, OperationStatus
from bough.engine.port import EngineError
from bough.tasks.suspend_idle import SuspendIdle
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as made:
        yield made


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> "Wait":
    return Wait(monkeypatch)


class Wait:
    """Time that passes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._past = timedelta()
        now = clock.now
        monkeypatch.setattr(clock, "now", lambda: now() + self._past)

    def __call__(self, seconds: float) -> None:
        self._past += timedelta(seconds=seconds)


def task(platform: Platform, activity: EndpointActivity | None = None) -> SuspendIdle:
    parts = platform.services
    return SuspendIdle(parts.settings, parts.store, platform.engine, parts.queue, activity or parts.activity)


async def beat(platform: Platform, made: dict[str, Any]) -> Endpoint:
    """The task, then the work it asked for."""
    await task(platform).run()
    await platform.run_operations()
    return await platform.get_endpoint(made)


async def test_after_its_timeout_it_sleeps_also_with_an_idle_client(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project()
    endpoint = made["endpoints"][0]["id"]
    async with platform.connect(endpoint, "neondb_owner", "neondb") as idle:
        await idle.fetchval("select 1")
        wait(299)
        assert (await beat(platform, made)).state is EndpointState.ACTIVE
        wait(2)
        asleep = await beat(platform, made)
        assert (asleep.state, asleep.pending_state) == (EndpointState.IDLE, None)
        assert asleep.suspended_at is not None
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await idle.fetchval("select 1")
    assert not (await platform.engine.observe()).running_endpoints
    last = (await platform.list_operations(made["project"]["id"]))[-1]
    assert (last.action, last.status) == (OperationAction.SUSPEND_COMPUTE, OperationStatus.FINISHED)


async def test_an_open_transaction_keeps_it_awake(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project()
    async with platform.connect(made["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        await client.execute("begin")
        wait(400)
        now = clock.now()
        kept = await beat(platform, made)
        assert (kept.state, kept.pending_state) == (EndpointState.ACTIVE, None)
        assert kept.last_active is not None
        assert kept.last_active >= now, "it was in use now"
        await client.execute("commit")
    wait(301)
    assert (await beat(platform, made)).state is EndpointState.IDLE


async def test_a_statement_that_runs_keeps_it_awake(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project()
    endpoint = made["endpoints"][0]["id"]
    async with (
        platform.connect(endpoint, "neondb_owner", "neondb") as client,
        platform.connect(endpoint, "neondb_owner", "neondb") as other,
    ):
        pid = await client.fetchval("select pg_backend_pid()")
        running = asyncio.create_task(client.execute("select pg_sleep(60)"))
        while await other.fetchval("select state from pg_stat_activity where pid = $1", pid) != "active":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        wait(400)
        assert (await beat(platform, made)).state is EndpointState.ACTIVE
        await other.execute("select pg_cancel_backend($1)", pid)
        with pytest.raises(asyncpg.QueryCanceledError):
            await running


async def test_a_replication_connection_keeps_it_awake(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project(settings={"enable_logical_replication": True})
    address = await platform.engine.find_address((await platform.get_endpoint(made)).id)
    assert address is not None
    client = await asyncpg.connect(
        host=address.host,
        port=address.port,
        user="neondb_owner",
        database="neondb",
        server_settings={"replication": "database"},
    )
    wait(400)
    assert (await beat(platform, made)).state is EndpointState.ACTIVE
    client.terminate()


async def test_never_means_never(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project(default_endpoint_settings={"suspend_timeout_seconds": -1})
    wait(10 * 86400)
    assert (await beat(platform, made)).state is EndpointState.ACTIVE


async def test_its_own_timeout_counts(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project(default_endpoint_settings={"suspend_timeout_seconds": 3600})
    wait(3590)
    assert (await beat(platform, made)).state is EndpointState.ACTIVE
    wait(20)
    assert (await beat(platform, made)).state is EndpointState.IDLE


async def test_what_gateways_report_keeps_it_awake(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(made)
    wait(400)
    active = EndpointReport(endpoint=endpoint.id, bytes_in=1, bytes_out=1, connections=1, is_active=True)
    await platform.services.activity.report("w", 1, [active])
    assert (await beat(platform, made)).state is EndpointState.ACTIVE
    await platform.services.activity.report("w", 2, [replace(active, is_active=False)])
    wait(301)
    assert (await beat(platform, made)).state is EndpointState.IDLE


async def test_somebody_on_the_way_to_it_keeps_it_awake(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project()
    wait(400)
    await platform.inner.gateway_api.wakes.wake((await platform.get_endpoint(made)).id)
    assert (await beat(platform, made)).state is EndpointState.ACTIVE


async def test_after_a_start_of_control_its_time_begins_anew(platform: Platform, wait: Wait) -> None:
    """While control was away nobody could report."""
    made = await platform.create_ready_project()
    wait(4000)
    again = EndpointActivity(platform.store)
    await task(platform, again).run()
    assert (await platform.get_endpoint(made)).pending_state is None
    wait(301)
    await task(platform, again).run()
    assert (await platform.get_endpoint(made)).pending_state is EndpointState.IDLE


@pytest.mark.parametrize("how", ["busy", "reported"])
async def test_one_that_is_in_use_again_before_the_stop_stays(platform: Platform, wait: Wait, how: str) -> None:
    made = await platform.create_ready_project()
    wait(400)
    await task(platform).run()
    endpoint = await platform.get_endpoint(made)
    assert endpoint.pending_state is EndpointState.IDLE
    async with platform.connect(endpoint.id, "neondb_owner", "neondb") as client:
        if how == "busy":
            await client.execute("begin")
        else:
            async with platform.store.transaction() as rows:
                await rows.endpoints.record_activity(endpoint.id, clock.now())
        await platform.run_operations()
        assert await client.fetchval("select 1") == 1
    stayed = await platform.get_endpoint(made)
    assert (stayed.state, stayed.pending_state) == (EndpointState.ACTIVE, None)
    assert (await platform.list_operations(made["project"]["id"]))[-1].status is OperationStatus.SKIPPED


async def test_one_with_work_under_way_is_left_alone(platform: Platform, wait: Wait) -> None:
    made = await platform.create_ready_project()
    wait(400)
    change = {"project": {"settings": {"enable_logical_replication": True}}}
    await platform.client.patch(f"{API}/projects/{made['project']['id']}", json=change)
    await task(platform).run()
    actions = [operation.action for operation in await platform.list_operations(made["project"]["id"])]
    assert OperationAction.SUSPEND_COMPUTE not in actions


async def test_one_that_does_not_answer_keeps_nobody_else_awake(
    platform: Platform, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute, other = [await platform.create_ready_project() for _ in range(2)]
    silent = (await platform.get_endpoint(mute)).id
    ask = platform.engine.is_busy

    async def is_busy(endpoint: Any) -> bool:
        if endpoint == silent:
            raise EngineError("The compute did not take our statements.")
        return await ask(endpoint)

    monkeypatch.setattr(platform.engine, "is_busy", is_busy)
    wait(400)
    assert (await beat(platform, other)).state is EndpointState.IDLE
    assert (await platform.get_endpoint(mute)).state is EndpointState.ACTIVE


async def test_a_clock_that_was_wrong_does_not_count(platform: Platform) -> None:
    made = await platform.create_ready_project()
    async with platform.store.transaction() as rows:
        endpoint = await platform.get_endpoint(made)
        await rows.endpoints.save(
            replace(endpoint, last_active=datetime.max.replace(tzinfo=endpoint.created_at.tzinfo))
        )
    assert (await beat(platform, made)).state is EndpointState.ACTIVE
