"""Idle computes are suspended after their timeout, unless they work or never suspend."""

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
from bough.domain.gateway_reports import EndpointReport
from bough.domain.operation import OperationKind, OperationStatus
from bough.engine.port import EngineError
from bough.tasks.suspend_idle import SuspendIdle
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as opened:
        yield opened


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> "AdvanceClock":
    return AdvanceClock(monkeypatch)


class AdvanceClock:
    """Advances the clock by some seconds when it is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._past = timedelta()
        now = clock.now
        monkeypatch.setattr(clock, "now", lambda: now() + self._past)

    def __call__(self, seconds: float) -> None:
        self._past += timedelta(seconds=seconds)


def make_task(platform: Platform, activity: EndpointActivity | None = None) -> SuspendIdle:
    services = platform.services
    return SuspendIdle(
        services.settings, services.store, platform.engine, services.queue, activity or services.activity
    )


async def run_task(platform: Platform, created: dict[str, Any]) -> Endpoint:
    """Run the task, then the operations that it enqueued."""
    await make_task(platform).run()
    await platform.run_operations()
    return await platform.get_endpoint(created)


async def test_after_its_timeout_it_sleeps_also_with_an_idle_client(
    platform: Platform, advance_clock: AdvanceClock
) -> None:
    created = await platform.create_ready_project()
    endpoint = created["endpoints"][0]["id"]
    async with platform.connect(endpoint, "neondb_owner", "neondb") as idle:
        await idle.fetchval("select 1")
        advance_clock(299)
        assert (await run_task(platform, created)).state is EndpointState.ACTIVE
        advance_clock(2)
        suspended = await run_task(platform, created)
        assert (suspended.state, suspended.pending_state) == (EndpointState.IDLE, None)
        assert suspended.suspended_at is not None
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await idle.fetchval("select 1")
    assert not (await platform.engine.observe()).running_endpoints
    last = (await platform.list_operations(created["project"]["id"]))[-1]
    assert (last.kind, last.status) == (OperationKind.SUSPEND_COMPUTE, OperationStatus.FINISHED)


async def test_an_open_transaction_keeps_it_awake(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project()
    async with platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        await client.execute("begin")
        advance_clock(400)
        now = clock.now()
        kept = await run_task(platform, created)
        assert (kept.state, kept.pending_state) == (EndpointState.ACTIVE, None)
        assert kept.last_active is not None
        assert kept.last_active >= now, "it was in use now"
        await client.execute("commit")
    advance_clock(301)
    assert (await run_task(platform, created)).state is EndpointState.IDLE


async def test_a_statement_that_runs_keeps_it_awake(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project()
    endpoint = created["endpoints"][0]["id"]
    async with (
        platform.connect(endpoint, "neondb_owner", "neondb") as client,
        platform.connect(endpoint, "neondb_owner", "neondb") as other,
    ):
        pid = await client.fetchval("select pg_backend_pid()")
        running = asyncio.create_task(client.execute("select pg_sleep(60)"))
        while await other.fetchval("select state from pg_stat_activity where pid = $1", pid) != "active":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        advance_clock(400)
        assert (await run_task(platform, created)).state is EndpointState.ACTIVE
        await other.execute("select pg_cancel_backend($1)", pid)
        with pytest.raises(asyncpg.QueryCanceledError):
            await running


async def test_a_replication_connection_keeps_it_awake(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project(settings={"enable_logical_replication": True})
    address = await platform.engine.find_address((await platform.get_endpoint(created)).id)
    assert address is not None
    client = await asyncpg.connect(
        host=address.host,
        port=address.port,
        user="neondb_owner",
        database="neondb",
        server_settings={"replication": "database"},
    )
    advance_clock(400)
    assert (await run_task(platform, created)).state is EndpointState.ACTIVE
    client.terminate()


async def test_never_means_never(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project(default_endpoint_settings={"suspend_timeout_seconds": -1})
    advance_clock(10 * 86400)
    assert (await run_task(platform, created)).state is EndpointState.ACTIVE


async def test_its_own_timeout_counts(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project(default_endpoint_settings={"suspend_timeout_seconds": 3600})
    advance_clock(3590)
    assert (await run_task(platform, created)).state is EndpointState.ACTIVE
    advance_clock(20)
    assert (await run_task(platform, created)).state is EndpointState.IDLE


async def test_what_gateways_report_keeps_it_awake(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project()
    endpoint = await platform.get_endpoint(created)
    advance_clock(400)
    active = EndpointReport(endpoint=endpoint.id, bytes_in=1, bytes_out=1, connections=1, is_active=True)
    await platform.services.activity.report("w", 1, [active])
    assert (await run_task(platform, created)).state is EndpointState.ACTIVE
    await platform.services.activity.report("w", 2, [replace(active, is_active=False)])
    advance_clock(301)
    assert (await run_task(platform, created)).state is EndpointState.IDLE


async def test_somebody_on_the_way_to_it_keeps_it_awake(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project()
    advance_clock(400)
    await platform.inner.gateway_api.wakes.wake((await platform.get_endpoint(created)).id)
    assert (await run_task(platform, created)).state is EndpointState.ACTIVE


async def test_after_a_start_of_control_its_time_begins_anew(platform: Platform, advance_clock: AdvanceClock) -> None:
    """No gateway could report while control was down."""
    created = await platform.create_ready_project()
    advance_clock(4000)
    again = EndpointActivity(platform.store)
    await make_task(platform, again).run()
    assert (await platform.get_endpoint(created)).pending_state is None
    advance_clock(301)
    await make_task(platform, again).run()
    assert (await platform.get_endpoint(created)).pending_state is EndpointState.IDLE


@pytest.mark.parametrize("how", ["busy", "reported"])
async def test_one_that_is_in_use_again_before_the_stop_stays(
    platform: Platform, advance_clock: AdvanceClock, how: str
) -> None:
    created = await platform.create_ready_project()
    advance_clock(400)
    await make_task(platform).run()
    endpoint = await platform.get_endpoint(created)
    assert endpoint.pending_state is EndpointState.IDLE
    async with platform.connect(endpoint.id, "neondb_owner", "neondb") as client:
        if how == "busy":
            await client.execute("begin")
        else:
            async with platform.store.transaction() as rows:
                await rows.endpoints.record_activity(endpoint.id, clock.now())
        await platform.run_operations()
        assert await client.fetchval("select 1") == 1
    stayed = await platform.get_endpoint(created)
    assert (stayed.state, stayed.pending_state) == (EndpointState.ACTIVE, None)
    assert (await platform.list_operations(created["project"]["id"]))[-1].status is OperationStatus.SKIPPED


async def test_one_with_work_under_way_is_left_alone(platform: Platform, advance_clock: AdvanceClock) -> None:
    created = await platform.create_ready_project()
    advance_clock(400)
    change = {"project": {"settings": {"enable_logical_replication": True}}}
    await platform.client.patch(f"{API}/projects/{created['project']['id']}", json=change)
    await make_task(platform).run()
    actions = [operation.kind for operation in await platform.list_operations(created["project"]["id"])]
    assert OperationKind.SUSPEND_COMPUTE not in actions


async def test_one_that_does_not_answer_keeps_nobody_else_awake(
    platform: Platform, advance_clock: AdvanceClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent_project, other = [await platform.create_ready_project() for _ in range(2)]
    silent_endpoint = (await platform.get_endpoint(silent_project)).id
    original_is_busy = platform.engine.is_busy

    async def is_busy(endpoint: Any) -> bool:
        if endpoint == silent_endpoint:
            raise EngineError("The compute did not take our statements.")
        return await original_is_busy(endpoint)

    monkeypatch.setattr(platform.engine, "is_busy", is_busy)
    advance_clock(400)
    assert (await run_task(platform, other)).state is EndpointState.IDLE
    assert (await platform.get_endpoint(silent_project)).state is EndpointState.ACTIVE


async def test_a_clock_that_was_wrong_does_not_count(platform: Platform) -> None:
    created = await platform.create_ready_project()
    async with platform.store.transaction() as rows:
        endpoint = await platform.get_endpoint(created)
        await rows.endpoints.save(
            replace(endpoint, last_active=datetime.max.replace(tzinfo=endpoint.created_at.tzinfo))
        )
    assert (await run_task(platform, created)).state is EndpointState.ACTIVE
