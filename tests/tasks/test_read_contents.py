"""Which computes are read, how many at a time, and how one that does not answer is handled."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.domain.endpoint import EndpointState
from bough.engine.port import BranchContents, ContentsQuery, Engine, EngineError
from bough.ids import EndpointId
from bough.operations.actions import ALL_ACTIONS
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.store.sqlite import SqliteStore
from bough.tasks import read_contents
from bough.tasks.read_contents import ReadContents
from support.stores import add_project, make_endpoint, make_project


class FakeContentsEngine:
    """An engine that only returns contents and records its calls."""

    def __init__(self) -> None:
        self.calls: list[EndpointId] = []
        self.silent: set[EndpointId] = set()

    async def read_compute_contents(self, endpoint: EndpointId, _query: ContentsQuery) -> BranchContents:
        self.calls.append(endpoint)
        if endpoint in self.silent:
            raise EngineError("The compute did not take our statements.")
        return BranchContents(roles=(), databases=())

    def take_calls(self) -> list[EndpointId]:
        calls, self.calls = self.calls, []
        return sorted(calls)


class ContentsSetup:
    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.engine = FakeContentsEngine()
        self.activity = EndpointActivity(store)
        queue = OperationQueue(store, Events(), ALL_ACTIONS, 0)
        self.task = ReadContents(store, cast(Engine, self.engine), queue, self.activity)

    async def add_endpoints(self, count: int) -> list[EndpointId]:
        project = make_project()
        branch, first = await add_project(self.store, project)
        endpoints = [make_endpoint(branch, state=EndpointState.ACTIVE, pending_state=None) for _ in range(count)]
        async with self.store.transaction() as rows:
            for endpoint in endpoints:
                await rows.endpoints.add(endpoint)
        assert first.state is EndpointState.INIT
        return sorted(endpoint.id for endpoint in endpoints)


@pytest.fixture
async def contents_setup(tmp_path: Path) -> AsyncIterator[ContentsSetup]:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    yield ContentsSetup(store)
    await store.close()


async def test_each_is_read_once_after_its_start_and_then_when_it_was_in_use(contents_setup: ContentsSetup) -> None:
    one, other = await contents_setup.add_endpoints(2)
    await contents_setup.task.run()
    assert contents_setup.engine.take_calls() == [one, other]
    await contents_setup.task.run()
    assert contents_setup.engine.take_calls() == []
    contents_setup.activity.mark_requested(one)
    await contents_setup.task.run()
    assert contents_setup.engine.take_calls() == [one]


async def test_those_that_sleep_are_not_asked(contents_setup: ContentsSetup) -> None:
    contents_setup.activity.mark_unread([EndpointId.new()])
    await contents_setup.task.run()
    assert contents_setup.engine.take_calls() == []


async def test_many_are_read_a_few_at_a_time_and_none_is_forgotten(
    contents_setup: ContentsSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_contents, "BATCH_SIZE", 2)
    all_endpoints = await contents_setup.add_endpoints(5)
    read: list[EndpointId] = []
    for _ in range(3):
        contents_setup.activity.mark_unread(all_endpoints)
        await contents_setup.task.run()
        batch = contents_setup.engine.take_calls()
        assert len(batch) == 2
        read += batch
    assert set(read) == set(all_endpoints), "endpoints that waited longest come first"


async def test_one_that_does_not_answer_is_asked_again_later(
    contents_setup: ContentsSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, other = await contents_setup.add_endpoints(2)
    contents_setup.engine.silent = {silent}
    await contents_setup.task.run()
    contents_setup.engine.take_calls()
    contents_setup.activity.mark_unread([other])
    await contents_setup.task.run()
    assert contents_setup.engine.take_calls() == [other]
    later = clock.monotonic() + 60
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    await contents_setup.task.run()
    assert contents_setup.engine.take_calls() == [silent]
