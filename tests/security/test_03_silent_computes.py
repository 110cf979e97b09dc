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
from bough.control.activity import Activity
from bough.control.figures import Figures
from bough.domain.endpoint import Endpoint, EndpointState
from bough.engine.local.computes import session
from bough.engine.port import Engine, Usage
from bough.ids import EndpointId
from bough.operations.actions import EVERY
from bough.operations.events import Events
from bough.operations.queue import Queue
from bough.store.sqlite import SqliteStore
from bough.tasks import looks
from bough.tasks.loop import Task
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.read_contents import ReadContents
from bough.tasks.suspend_idle import SuspendIdle
from security import fake_server
from security.fake_server import BOOL, Line
from short_folders import short_folder
from stores import a_project, add_project, an_endpoint

SILENT = 2 * looks.ASIDE  # and more than those that have a place


class Computes:
    """An engine whose computes are programs on real sockets; it looks at them with real sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.open = 0
        self.most_open = 0
        self.limits = session.LOOK

    def socket(self, endpoint: EndpointId) -> Path:
        return self._folder / endpoint[-8:]

    async def _ask(self, endpoint: EndpointId) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            async with session.opened(self.socket(endpoint), limits=self.limits) as ours:
                await ours.is_busy()
        finally:
            self.open -= 1

    async def contents(self, endpoint: EndpointId, *_: Any) -> None:
        await self._ask(endpoint)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        await self._ask(endpoint)
        return True

    async def cpu_seconds(self) -> dict[EndpointId, float]:
        return {}

    async def usage(self, endpoint: EndpointId) -> Usage | None:
        await self._ask(endpoint)
        return None


class World:
    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.computes = Computes(folder)
        self.activity = Activity(store)

    async def endpoints(self, count: int, *, projects: int) -> list[EndpointId]:
        owners = [(await add_project(self.store, a_project()))[0] for _ in range(projects)]
        made = [self._endpoint(owners[number % projects]) for number in range(count)]
        async with self.store.transaction() as rows:
            for endpoint in made:
                await rows.endpoints.add(endpoint)
        return sorted(endpoint.id for endpoint in made)

    def _endpoint(self, branch: Any) -> Endpoint:
        long_ago = clock.now() - timedelta(days=1)
        return an_endpoint(
            branch, state=EndpointState.ACTIVE, pending_state=None, created_at=long_ago, last_active=long_ago
        )

    def reading(self) -> Task:
        return ReadContents(self.store, self._engine, self._queue, self.activity)

    def suspending(self) -> Task:
        self.activity.began = clock.now() - timedelta(days=1)
        return SuspendIdle(Settings(), self.store, self._engine, self._queue, self.activity)

    def measuring(self) -> Task:
        return MeasureBranches(self.store, self._engine, Figures(), self.activity)

    @property
    def _engine(self) -> Engine:
        return cast(Engine, self.computes)

    @property
    def _queue(self) -> Queue:
        return Queue(self.store, Events(), EVERY, 0)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(looks, "SOON", 0.3)
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    with short_folder() as folder:
        yield World(store, folder)
    await store.close()


@pytest.mark.parametrize("task", [World.reading, World.suspending, World.measuring], ids=lambda make: make.__name__)
async def test_another_compute_is_looked_at_in_the_same_round(world: World, task: Callable[[World], Task]) -> None:
    """The silent ones stay silent until it was."""
    *silent, other = await world.endpoints(SILENT + 1, projects=SILENT + 1)
    was_asked = asyncio.Event()

    async def busy(line: Line) -> None:
        was_asked.set()
        await line.send(fake_server.row(b"\1"))

    async with AsyncExitStack() as servers:
        listening = servers.enter_async_context
        for each in silent:
            await listening(fake_server.listening(world.computes.socket(each), fake_server.silent))
        answering = fake_server.answering([("busy", BOOL)], busy)
        await listening(fake_server.listening(world.computes.socket(other), answering))
        made = task(world)
        if isinstance(made, ReadContents):
            made._read = {other: 1.0}  # the last in the row
        running = asyncio.create_task(made.run())
        try:
            async with asyncio.timeout(60):  # without it a failure would take an hour
                await was_asked.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert world.computes.most_open <= looks.ASIDE + 8 + 1


async def test_a_project_has_few_looks_at_once(world: World) -> None:
    everyone = await world.endpoints(10, projects=1)
    world.computes.limits = replace(session.LOOK, statement=0.2)
    async with AsyncExitStack() as servers:
        for each in everyone:
            made = fake_server.listening(world.computes.socket(each), fake_server.silent)
            await servers.enter_async_context(made)
        await world.measuring().run()
    assert world.computes.most_open == looks.OF_A_PROJECT


async def test_one_that_did_not_answer_soon_takes_no_place_the_next_time(world: World) -> None:
    [slow] = await world.endpoints(1, projects=1)
    seen: list[bool] = []

    async def look(_: object) -> bool:
        seen.append(made._places.locked())
        if len(seen) == 1:
            await asyncio.sleep(3 * looks.SOON)
        return True

    made: looks.Looks[Endpoint] = looks.Looks(1, look)
    async with world.store.read() as rows:
        target = await rows.endpoints.living(slow)
    assert target is not None
    for _ in range(3):
        await made.at([target])
    assert seen == [True, False, True], "the first, the one aside, and the one after it had answered soon"
