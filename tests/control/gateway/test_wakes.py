"""Wakes of suspended endpoints: shared by all requests, and not delayed by work elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from bough import clock
from bough.domain.endpoint import EndpointState
from bough.domain.gateway_protocol import ComputeAddress
from bough.domain.operation import Lane, OperationKind, OperationStatus
from bough.engine.port import EngineError
from bough.errors import Busy, NotFound, PreconditionFailed, Unavailable
from bough.ids import EndpointId
from bough.operations.action import NewOperation
from bough.operations.actions.suspend_compute import SuspendCompute
from support.engine_home import kill_process
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as opened:
        yield opened


async def wake(platform: Platform, created: dict[str, Any]) -> ComputeAddress:
    async with asyncio.timeout(30):
        return await platform.inner.gateway_api.wakes.wake(EndpointId(created["endpoints"][0]["id"]))


async def asleep(platform: Platform, **fields: Any) -> dict[str, Any]:
    """Create a project whose compute is suspended."""
    created = await platform.create_ready_project(**fields)
    await call(platform, created, "suspend")
    await platform.run_operations()
    assert (await platform.get_endpoint(created)).state is EndpointState.IDLE
    return created


async def call(platform: Platform, created: dict[str, Any], verb: str) -> None:
    endpoint = created["endpoints"][0]
    answer = await platform.client.post(f"{API}/projects/{endpoint['project_id']}/endpoints/{endpoint['id']}/{verb}")
    assert answer.status_code == 200, answer.text


async def starts(platform: Platform, created: dict[str, Any]) -> list[OperationStatus]:
    """Return the statuses of the operations that started its compute, except the first."""
    found = await platform.list_operations(created["project"]["id"])
    return [each.status for each in found if each.kind is OperationKind.START_COMPUTE][1:]


async def test_one_that_runs_answers_without_an_operation(platform: Platform) -> None:
    created = await platform.create_ready_project()
    assert await wake(platform, created) == await platform.engine.find_address(
        (await platform.get_endpoint(created)).id
    )
    assert await starts(platform, created) == []


async def test_one_operation_however_many_ask(platform: Platform) -> None:
    created = await asleep(platform)
    async with platform.background_runner():
        found = await asyncio.gather(*(wake(platform, created) for _ in range(20)))
    assert len(set(map(str, found))) == 1
    assert await starts(platform, created) == [OperationStatus.FINISHED]
    endpoint = await platform.get_endpoint(created)
    assert (endpoint.state, endpoint.pending_state, endpoint.suspended_at) == (EndpointState.ACTIVE, None, None)
    assert await platform.query(created, "select 1") == 1


async def test_one_that_asks_and_leaves_does_not_take_the_wake_along(platform: Platform) -> None:
    created = await asleep(platform)
    async with platform.background_runner():
        first = asyncio.create_task(wake(platform, created))
        second = asyncio.create_task(wake(platform, created))
        await asyncio.sleep(0.01)
        first.cancel()
        assert (await second).port == 5432
    assert await starts(platform, created) == [OperationStatus.FINISHED]


async def test_a_new_project_is_waited_for(platform: Platform) -> None:
    created = await platform.create_project()
    async with platform.background_runner():
        await wake(platform, created)
    assert await platform.query(created, "select 1") == 1
    assert await starts(platform, created) == []


async def test_one_whose_compute_crashed_is_started_again(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await kill_compute(platform, created)
    async with platform.background_runner():
        await wake(platform, created)
    assert await platform.query(created, "select 1") == 1
    assert await starts(platform, created) == [OperationStatus.FINISHED]


async def test_work_on_it_is_waited_for(platform: Platform) -> None:
    """A running stop ends first; the wake does not fail because of it."""
    created = await platform.create_ready_project()
    await call(platform, created, "suspend")
    async with platform.background_runner():
        await wake(platform, created)
    assert await platform.query(created, "select 1") == 1
    actions = [operation.kind for operation in await platform.list_operations(created["project"]["id"])]
    assert actions[2:] == [OperationKind.SUSPEND_COMPUTE, OperationKind.START_COMPUTE]


async def test_a_restart_is_joined(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await call(platform, created, "restart")
    async with platform.background_runner():
        await wake(platform, created)
    assert await starts(platform, created) == [OperationStatus.FINISHED]


async def test_it_does_not_wait_behind_slow_work_elsewhere(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await asleep(platform)
    stuck = asyncio.Event()

    async def slow(*_: Any) -> None:
        await stuck.wait()

    monkeypatch.setattr(platform.engine, "ensure_branch", slow)
    others = [await platform.create_project() for _ in range(platform.settings.operation_workers)]
    async with platform.background_runner():
        async with asyncio.timeout(30):
            while not await all_taken(platform, others):  # noqa: ASYNC110  the store has no event for it
                await asyncio.sleep(0.01)
        await wake(platform, created)
        assert await all_taken(platform, others)
        stuck.set()
    assert await platform.query(created, "select 1") == 1


async def test_a_start_that_waits_behind_slow_work_is_hurried(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a reboot, when many computes are to be started and a client connects to one of them."""
    created = await asleep(platform)
    await call(platform, created, "start")
    monkeypatch.setattr(platform.inner.runner._workers, "_counts", {Lane.URGENT: 1, Lane.REGULAR: 0})
    async with platform.background_runner():
        await wake(platform, created)
    assert await starts(platform, created) == [OperationStatus.FINISHED]


async def test_unknown_and_deleted_ones_are_not_found(platform: Platform) -> None:
    with pytest.raises(NotFound):
        await platform.inner.gateway_api.wakes.wake(EndpointId.new())
    created = await platform.create_ready_project()
    assert (await platform.client.delete(f"{API}/projects/{created['project']['id']}")).status_code == 200
    with pytest.raises(NotFound):
        await wake(platform, created)


async def test_a_disabled_one_says_how_to_enable_it(platform: Platform) -> None:
    created = await asleep(platform)
    endpoint = await platform.get_endpoint(created)
    async with platform.store.transaction() as rows:
        await rows.endpoints.save(replace(endpoint, disabled=True))
    with pytest.raises(PreconditionFailed, match=r"disabled.*PATCH /projects/.*disabled") as refused:
        await wake(platform, created)
    assert endpoint.id in refused.value.public_message
    assert await starts(platform, created) == []


async def test_a_start_that_fails_says_why(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await asleep(platform)

    async def refuse(_: Any) -> None:
        raise EngineError("The disk is full: free some space and try again.", transient=False)

    with monkeypatch.context() as during:
        during.setattr(platform.engine, "ensure_running", refuse)
        async with platform.background_runner():
            with pytest.raises(Unavailable, match="The disk is full"):
                await wake(platform, created)
    endpoint = await platform.get_endpoint(created)
    assert (endpoint.state, endpoint.pending_state) == (EndpointState.IDLE, None)
    async with platform.background_runner():
        await wake(platform, created)
    assert await starts(platform, created) == [OperationStatus.FAILED, OperationStatus.FINISHED]


async def test_work_that_does_not_end_is_busy_after_a_while(postgres_server: PostgresServer) -> None:
    async with open_platform(wake_seconds=0.3) as platform:
        created = await platform.create_ready_project()
        endpoint = await platform.get_endpoint(created)
        new_operation = NewOperation.for_endpoint(SuspendCompute, endpoint)
        async with platform.services.queue.locked_transaction(new_operation.lock) as rows:
            await rows.endpoints.save(replace(endpoint, pending_state=EndpointState.IDLE))
            await platform.services.queue.enqueue(rows, [new_operation], "test")
        with pytest.raises(Busy, match=r"did not start within 0\.3 seconds"):
            await wake(platform, created)


async def test_wakes_are_admitted_at_a_bounded_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_platform(wakes_at_once=2) as platform:
        several = [await asleep(platform) for _ in range(5)]
        at_once = most = 0
        ensure = platform.engine.ensure_running

        async def counted(spec: Any) -> Any:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            try:
                return await ensure(spec)
            finally:
                at_once -= 1

        monkeypatch.setattr(platform.engine, "ensure_running", counted)
        async with platform.background_runner():
            await asyncio.gather(*(wake(platform, created) for created in several))
        assert most <= 2


async def test_a_slow_search_does_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite, statements run in the event loop's thread, except those that may take long."""
    async with open_platform() as platform:
        created = await asleep(platform)
        async with platform.store.read(slow=True) as rows:
            endless = asyncio.create_task(rows.endpoints._value(endless_statement()))
            await asyncio.sleep(0.05)
            async with platform.background_runner():
                await wake(platform, created)
            assert not endless.done()
            driver = platform.store._searcher  # type: ignore[attr-defined]
            with driver.connect() as connection:
                connection.connection.driver_connection.interrupt()
            with pytest.raises(Exception, match="interrupted"):
                await endless


def endless_statement() -> Any:
    import sqlalchemy as sa

    return sa.text("with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n")


async def test_when_it_was_wanted_is_remembered(platform: Platform) -> None:
    created = await platform.create_ready_project()
    before = clock.now()
    await wake(platform, created)
    endpoint = await platform.get_endpoint(created)
    assert platform.services.activity.last_requested_at(endpoint.id) >= before


async def all_taken(platform: Platform, projects: list[dict[str, Any]]) -> bool:
    """Whether each has a running operation."""
    for created in projects:
        first = (await platform.list_operations(created["project"]["id"]))[0]
        if first.lease_until is None or first.has_ended:
            return False
    return True


async def kill_compute(platform: Platform, created: dict[str, Any]) -> None:
    endpoint = await platform.get_endpoint(created)
    async with platform.store.read() as rows:
        branch = await rows.branches.get(endpoint.project_id, endpoint.branch_id)
    assert branch is not None
    pid_file = platform.settings.home / "volumes" / branch.volume_id / "data" / "postmaster.pid"
    await kill_process(int(pid_file.read_text().split()[0]))
