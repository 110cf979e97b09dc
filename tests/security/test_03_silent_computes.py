"""Row 3: computes that never answer, more of them than there are places, keep nobody from looking at the others."""

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

SILENT = 2 * inspections.MAX_SLOW  # and more than those that have a place


class Computes:
    """An engine whose computes are programs on real sockets; it looks at them with real sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.open = 0
        self.most_open = 0
        self.limits = session.INSPECTION_LIMITS

    def socket(self, endpoint: EndpointId) -> Path:
        return self._folder / endpoint[-8:]

    async def _ask(self, endpoint: EndpointId) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            async with session.open_session(self.socket(endpoint), limits=self.limits) as ours:
                await ours.is_busy()
        finally:
            self.open -= 1

    async def read_compute_contents(self, endpoint: EndpointId, *_: Any) -> None:
        await self._ask(endpoint)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        await self._ask(endpoint)
        return True

    async def read_cpu_seconds(self) -> dict[EndpointId, float]:
        return {}

    async def measure_usage(self, endpoint: EndpointId) -> ComputeUsage | None:
        await self._ask(endpoint)
        return None


class World:
    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.computes = Computes(folder)
        self.activity = EndpointActivity(store)

    async def endpoints(self, count: int, *, projects: int) -> list[EndpointId]:
        owners = [(await add_project(self.store, make_project()))[0] for _ in range(projects)]
        made = [self._endpoint(owners[number % projects]) for number in range(count)]
        async with self.store.transaction() as rows:
            for endpoint in made:
                await rows.endpoints.add(endpoint)
        return sorted(endpoint.id for endpoint in made)

    def _endpoint(self, branch: Any) -> Endpoint:
        long_ago = clock.now() - timedelta(days=1)
        return make_endpoint(
            branch, state=EndpointState.ACTIVE, pending_state=None, created_at=long_ago, last_active=long_ago
        )

    def reading(self) -> Task:
        return ReadContents(self.store, self._engine, self._queue, self.activity)

    def suspending(self) -> Task:
        self.activity.started_at = clock.now() - timedelta(days=1)
        return SuspendIdle(Settings(), self.store, self._engine, self._queue, self.activity)

    def measuring(self) -> Task:
        return MeasureBranches(self.store, self._engine, ComputeMeasurements(), self.activity)

    @property
    def _engine(self) -> Engine:
        return cast(Engine, self.computes)

    @property
    def _queue(self) -> OperationQueue:
        return OperationQueue(self.store, Events(), ALL_ACTIONS, 0)


@pytest.fixture
async def idle_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(inspections, "SLOW_AFTER_SECONDS", 0.3)
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    with temporary_folder() as folder:
        yield World(store, folder)
    await store.close()


@pytest.mark.parametrize("task", [World.reading, World.suspending, World.measuring], ids=lambda make: make.__name__)
async def test_another_compute_is_looked_at_in_the_same_round(
    idle_computes: World, task: Callable[[World], Task]
) -> None:
    """The silent ones stay silent until it was."""
    *silent, other = await idle_computes.endpoints(SILENT + 1, projects=SILENT + 1)
    was_asked = asyncio.Event()

    async def busy(line: FakeConnection) -> None:
        was_asked.set()
        await line.send(fake_postgres.row(b"\1"))

    async with AsyncExitStack() as servers:
        listening = servers.enter_async_context
        for each in silent:
            await listening(
                fake_postgres.serve_fake_postgres(idle_computes.computes.socket(each), fake_postgres.never_reply)
            )
        answering = fake_postgres.make_query_script([("busy", BOOL)], busy)
        await listening(fake_postgres.serve_fake_postgres(idle_computes.computes.socket(other), answering))
        made = task(idle_computes)
        if isinstance(made, ReadContents):
            made._read = {other: 1.0}  # the last in the row
        running = asyncio.create_task(made.run())
        try:
            async with asyncio.timeout(60):  # without it a failure would take an hour
                await was_asked.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert idle_computes.computes.most_open <= inspections.MAX_SLOW + 8 + 1


async def test_a_project_has_few_looks_at_once(idle_computes: World) -> None:
    everyone = await idle_computes.endpoints(10, projects=1)
    idle_computes.computes.limits = replace(session.INSPECTION_LIMITS, statement_timeout=0.2)
    async with AsyncExitStack() as servers:
        for each in everyone:
            made = fake_postgres.serve_fake_postgres(idle_computes.computes.socket(each), fake_postgres.never_reply)
            await servers.enter_async_context(made)
        await idle_computes.measuring().run()
    assert idle_computes.computes.most_open == inspections.MAX_PER_PROJECT


async def test_one_that_did_not_answer_soon_takes_no_place_the_next_time(idle_computes: World) -> None:
    [slow] = await idle_computes.endpoints(1, projects=1)
    seen: list[bool] = []

    async def look(_: object) -> bool:
        seen.append(made._fast_slots.locked())
        if len(seen) == 1:
            await asyncio.sleep(3 * inspections.SLOW_AFTER_SECONDS)
        return True

    made: inspections.InspectionPool[Endpoint] = inspections.InspectionPool(1, look)
    async with idle_computes.store.read() as rows:
        target = await rows.endpoints.get_live(slow)
    assert target is not None
    for _ in range(3):
        await made.run([target])
    assert seen == [True, False, True], "the first, the one aside, and the one after it had answered soon"
