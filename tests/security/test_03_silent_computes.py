"""Rule 3: unresponsive computes, even more than there are slots, do not delay the inspection of others."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bough import clock
from bough.config import Settings
from bough.control.gateway.activity import EndpointActivity
from bough.control.platform.measurements import ComputeMeasurements
from bough.domain.endpoint import Endpoint, EndpointState
from bough.engine.local.computes import session
from bough.engine.port import ComputeUsage, Engine
from bough.ids import EndpointId
from bough.operations.actions import ALL_ACTIONS
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.store.sqlite import SqliteStore
from bough.tasks import inspections
from bough.tasks.loop import Task
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.read_contents import ReadContents
from bough.tasks.suspend_idle import SuspendIdle
from security import fake_postgres
from security.fake_postgres import BOOL, FakeConnection
from support.folders import temporary_folder
from support.stores import add_project, make_endpoint, make_project

UNRESPONSIVE = 2 * inspections.MAX_SLOW  # more than there are slots


class FakeEngine:
    """A fake engine that inspects fake servers on real sockets through real sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.open = 0
        self.max_open = 0
        self.limits = session.INSPECTION_LIMITS

    def socket_folder(self, endpoint: EndpointId) -> Path:
        return self._folder / endpoint[-8:]

    async def _query(self, endpoint: EndpointId) -> None:
        self.open += 1
        self.max_open = max(self.max_open, self.open)
        try:
            async with session.open_session(self.socket_folder(endpoint), limits=self.limits) as opened:
                await opened.is_busy()
        finally:
            self.open -= 1

    async def read_compute_contents(self, endpoint: EndpointId, *_: Any) -> None:
        await self._query(endpoint)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        await self._query(endpoint)
        return True

    async def read_cpu_seconds(self) -> dict[EndpointId, float]:
        return {}

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        await self._query(endpoint)
        return None


class TaskSetup:
    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.engine = FakeEngine(folder)
        self.activity = EndpointActivity(store)

    async def endpoints(self, count: int, *, projects: int) -> list[EndpointId]:
        branches = [(await add_project(self.store, make_project()))[0] for _ in range(projects)]
        endpoints = [self._make_endpoint(branches[number % projects]) for number in range(count)]
        async with self.store.transaction() as rows:
            for endpoint in endpoints:
                await rows.endpoints.add(endpoint)
        return sorted(endpoint.id for endpoint in endpoints)

    def _make_endpoint(self, branch: Any) -> Endpoint:
        long_ago = clock.now() - timedelta(days=1)
        return make_endpoint(
            branch, state=EndpointState.ACTIVE, pending_state=None, created_at=long_ago, last_active=long_ago
        )

    def read_contents_task(self) -> Task:
        return ReadContents(self.store, self._engine, self._queue, self.activity)

    def suspend_idle_task(self) -> Task:
        self.activity.started_at = clock.now() - timedelta(days=1)
        return SuspendIdle(Settings(), self.store, self._engine, self._queue, self.activity)

    def measure_branches_task(self) -> Task:
        return MeasureBranches(self.store, self._engine, ComputeMeasurements(), self.activity)

    @property
    def _engine(self) -> Engine:
        return cast(Engine, self.engine)

    @property
    def _queue(self) -> OperationQueue:
        return OperationQueue(self.store, Events(), ALL_ACTIONS, 0)


@pytest.fixture
async def task_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TaskSetup]:
    monkeypatch.setattr(inspections, "SLOW_AFTER_SECONDS", 0.3)
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    with temporary_folder() as folder:
        yield TaskSetup(store, folder)
    await store.close()


@pytest.mark.parametrize(
    "task",
    [TaskSetup.read_contents_task, TaskSetup.suspend_idle_task, TaskSetup.measure_branches_task],
    ids=lambda make: make.__name__,
)
async def test_another_compute_is_looked_at_in_the_same_round(
    task_setup: TaskSetup, task: Callable[[TaskSetup], Task]
) -> None:
    """The unresponsive computes do not reply until the responsive one was inspected."""
    *unresponsive, responsive = await task_setup.endpoints(UNRESPONSIVE + 1, projects=UNRESPONSIVE + 1)
    was_queried = asyncio.Event()

    async def send_busy(connection: FakeConnection) -> None:
        was_queried.set()
        await connection.send(fake_postgres.row(b"\1"))

    async with AsyncExitStack() as servers:
        start_server = servers.enter_async_context
        for endpoint in unresponsive:
            await start_server(
                fake_postgres.serve_fake_postgres(task_setup.engine.socket_folder(endpoint), fake_postgres.never_reply)
            )
        script = fake_postgres.make_query_script([("busy", BOOL)], send_busy)
        await start_server(fake_postgres.serve_fake_postgres(task_setup.engine.socket_folder(responsive), script))
        inspecting_task = task(task_setup)
        if isinstance(inspecting_task, ReadContents):
            inspecting_task._read = {responsive: 1.0}  # the last one in order
        running = asyncio.create_task(inspecting_task.run())
        try:
            async with asyncio.timeout(60):  # a failing test would otherwise take an hour
                await was_queried.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert task_setup.engine.max_open <= inspections.MAX_SLOW + 8 + 1


async def test_a_project_has_few_looks_at_once(task_setup: TaskSetup) -> None:
    endpoint_ids = await task_setup.endpoints(10, projects=1)
    task_setup.engine.limits = replace(session.INSPECTION_LIMITS, statement_timeout=0.2)
    async with AsyncExitStack() as servers:
        for endpoint in endpoint_ids:
            server = fake_postgres.serve_fake_postgres(
                task_setup.engine.socket_folder(endpoint), fake_postgres.never_reply
            )
            await servers.enter_async_context(server)
        await task_setup.measure_branches_task().run()
    assert task_setup.engine.max_open == inspections.MAX_PER_PROJECT


async def test_one_that_did_not_answer_soon_takes_no_place_the_next_time(task_setup: TaskSetup) -> None:
    [endpoint_id] = await task_setup.endpoints(1, projects=1)
    used_fast_slot: list[bool] = []

    async def inspect(_: object) -> bool:
        used_fast_slot.append(pool._fast_slots.locked())
        if len(used_fast_slot) == 1:
            await asyncio.sleep(3 * inspections.SLOW_AFTER_SECONDS)
        return True

    pool: inspections.InspectionPool[Endpoint] = inspections.InspectionPool(1, inspect)
    async with task_setup.store.read() as rows:
        target = await rows.endpoints.get_live(endpoint_id)
    assert target is not None
    for _ in range(3):
        await pool.run([target])
    assert used_fast_slot == [True, False, True], (
        "the second inspection must run outside the slots because the first was slow"
    )
