"""Which computes are asked for what is in them, how many at a time, and what one that does not answer costs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from bough import clock
from bough.control.activity import Activity
from bough.domain.endpoint import EndpointState
from bough.engine.port import Contents, Engine, EngineError, Listing
from bough.ids import EndpointId
from bough.operations.actions import EVERY
from bough.operations.events import Events
from bough.operations.queue import Queue
from bough.store.sqlite import SqliteStore
from bough.tasks import read_contents
from bough.tasks.read_contents import ReadContents
from stores import a_project, add_project, an_endpoint


class Computes:
    """An engine that only tells contents, and remembers who was asked."""

    def __init__(self) -> None:
        self.asked: list[EndpointId] = []
        self.mute: set[EndpointId] = set()

    async def contents(self, endpoint: EndpointId, _listing: Listing) -> Contents:
        self.asked.append(endpoint)
        if endpoint in self.mute:
            raise EngineError("The compute did not take our statements.")
        return Contents(roles=(), databases=())

    def take(self) -> list[EndpointId]:
        asked, self.asked = self.asked, []
        return sorted(asked)


class World:
    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.computes = Computes()
        self.activity = Activity(store)
        queue = Queue(store, Events(), EVERY, 0)
        self.task = ReadContents(store, cast(Engine, self.computes), queue, self.activity)

    async def endpoints(self, count: int) -> list[EndpointId]:
        project = a_project()
        branch, first = await add_project(self.store, project)
        made = [an_endpoint(branch, state=EndpointState.ACTIVE, pending_state=None) for _ in range(count)]
        async with self.store.transaction() as rows:
            for endpoint in made:
                await rows.endpoints.add(endpoint)
        assert first.state is EndpointState.INIT
        return sorted(endpoint.id for endpoint in made)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    yield World(store)
    await store.close()


async def test_each_is_read_once_after_its_start_and_then_when_it_was_in_use(world: World) -> None:
    one, other = await world.endpoints(2)
    await world.task.run()
    assert world.computes.take() == [one, other]
    await world.task.run()
    assert world.computes.take() == []
    world.activity.want(one)
    await world.task.run()
    assert world.computes.take() == [one]


async def test_those_that_sleep_are_not_asked(world: World) -> None:
    world.activity.unread([EndpointId.new()])
    await world.task.run()
    assert world.computes.take() == []


async def test_many_are_read_a_few_at_a_time_and_none_is_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_contents, "MOST", 2)
    everyone = await world.endpoints(5)
    asked: list[EndpointId] = []
    for _ in range(3):
        world.activity.unread(everyone)
        await world.task.run()
        taken = world.computes.take()
        assert len(taken) == 2
        asked += taken
    assert set(asked) == set(everyone), "who waits longest comes first"


async def test_one_that_does_not_answer_is_asked_again_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    mute, other = await world.endpoints(2)
    world.computes.mute = {mute}
    await world.task.run()
    world.computes.take()
    world.activity.unread([other])
    await world.task.run()
    assert world.computes.take() == [other]
    later = clock.monotonic() + 60
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    await world.task.run()
    assert world.computes.take() == [mute]
