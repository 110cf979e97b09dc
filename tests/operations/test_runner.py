"""The runner itself, with small actions of the test's own on a real store."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bough import clock
from bough.domain.operation import Operation, OperationAction, OperationStatus
from bough.domain.project import Project
from bough.engine.port import Engine, EngineError
from bough.errors import Busy
from bough.operations.action import Action, NewOperation, step
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.outcome import Done, Goto, Outcome, RowWriter, Sleep
from bough.operations.queue import OperationQueue
from bough.operations.runner import MAX_FAILURES, POLL_SECONDS, OperationRunner
from bough.store.operations import LostLease
from bough.store.sqlite import SqliteStore
from bough.store.store import Rows, Store
from support.stores import add_project, make_project

NO_ENGINE = cast(Engine, None)  # these actions have no hands


@dataclass
class Script:
    """What the toy actions do, and what they did."""

    did: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)
    writes: RowWriter | None = None


def toy(script: Script) -> type[Action]:
    class Toy(Action):
        action = OperationAction.CREATE_TIMELINE

        @step(undo="unfirst")
        async def first(self, _ctx: ActionContext) -> Outcome:
            script.did.append("first")
            return Goto(self.second)

        async def unfirst(self, _ctx: ActionContext) -> None:
            script.did.append("unfirst")

        @step(undo="unsecond")
        async def second(self, _ctx: ActionContext) -> Outcome:
            script.did.append("second")
            if script.errors:
                raise script.errors.pop(0)
            if script.sleeps:
                return Sleep(script.sleeps.pop(0), "not yet")
            return Done("all good", writes=script.writes)

        async def unsecond(self, _ctx: ActionContext) -> None:
            script.did.append("unsecond")

    return Toy


def follower(script: Script) -> type[Action]:
    class Follower(Action):
        action = OperationAction.START_COMPUTE

        @step(undo="unfollow")
        async def follow(self, _ctx: ActionContext) -> Outcome:
            script.did.append("follow")
            return Done("nothing to do", has_changed=False)

        async def unfollow(self, _ctx: ActionContext) -> None:
            script.did.append("unfollow")

    return Follower


def adding(project: Project) -> RowWriter:
    async def writes(rows: Rows) -> None:
        await rows.projects.add(project)

    return writes


class Bench:
    """A store with one project, a queue and a runner over toy actions."""

    def __init__(self, store: Store, script: Script, ids: dict[str, Any]) -> None:
        self.store, self.script, self.ids = store, script, ids
        actions = (toy(script), follower(script))
        self.events = Events()
        self.queue = OperationQueue(store, self.events, actions, hold_seconds=0.3)
        self.runner = OperationRunner(store, NO_ENGINE, self.events, actions, workers=2)

    def wish(self, action: OperationAction = OperationAction.CREATE_TIMELINE) -> NewOperation:
        return NewOperation(action, self.ids["project"], self.ids["branch"], self.ids["endpoint"])

    async def enqueue(self, *wishes: NewOperation) -> list[Operation]:
        async with self.queue.locked_transaction(wishes[0].lock) as rows:
            return await self.queue.enqueue(rows, wishes, "request")

    async def now(self, operation: Operation) -> Operation:
        async with self.store.read() as rows:
            found = await rows.operations.get(operation.id)
        assert found is not None
        return found

    async def has(self, project: Project) -> bool:
        async with self.store.read() as rows:
            return await rows.projects.get(project.id) is not None

    async def run_to_end(self, operation: Operation) -> Operation:
        while not (found := await self.now(operation)).has_ended:
            await self.runner.run_until_idle()
            await asyncio.sleep(0.02)
        return found


@pytest.fixture
async def runner_setup(tmp_path: Path) -> AsyncIterator[Bench]:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    project = make_project()
    branch, endpoint = await add_project(store, project)
    yield Bench(store, Script(), {"project": project.id, "branch": branch.id, "endpoint": endpoint.id})
    await store.close()


async def test_steps_run_in_order_and_are_recorded(runner_setup: Bench) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    ended = await runner_setup.run_to_end(operation)
    assert runner_setup.script.did == ["first", "second"]
    assert (ended.status, ended.steps_done, ended.error) == (OperationStatus.FINISHED, ("first", "second"), None)
    assert ended.started_at is not None
    assert ended.lease_until is None


async def test_a_step_that_only_an_earlier_version_had_begins_from_the_first(runner_setup: Bench) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    async with runner_setup.store.transaction() as rows:
        await rows.operations.save(replace(operation, step="publish", steps_done=("first", "gone")))
    ended = await runner_setup.run_to_end(operation)
    assert ended.status is OperationStatus.FINISHED
    assert runner_setup.script.did == ["first", "second"]


async def test_a_transient_error_is_tried_again_and_leaves_no_trace(runner_setup: Bench) -> None:
    runner_setup.script.errors = [EngineError("not now"), EngineError("not now either")]
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    ended = await runner_setup.run_to_end(operation)
    assert (ended.status, ended.failures, ended.error) == (OperationStatus.FINISHED, 2, None)
    assert runner_setup.script.did == ["first", "second", "second", "second"]


async def test_a_lasting_error_undoes_the_steps_in_reverse(runner_setup: Bench) -> None:
    runner_setup.script.errors = [EngineError("the disk is gone", transient=False)]
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    ended = await runner_setup.run_to_end(operation)
    assert runner_setup.script.did == ["first", "second", "unsecond", "unfirst"]
    assert (ended.status, ended.error) == (OperationStatus.FAILED, "the disk is gone")


async def test_an_unexpected_error_is_not_shown_and_ends_after_some_tries(
    runner_setup: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = clock.now()
    runner_setup.script.errors = [ValueError("secret detail") for _ in range(MAX_FAILURES)]
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    turns = iter(range(100))
    monkeypatch.setattr(clock, "now", lambda: began + timedelta(minutes=2 * next(turns)))
    ended = await runner_setup.run_to_end(operation)
    assert (ended.status, ended.failures) == (OperationStatus.FAILED, MAX_FAILURES)
    assert ended.error is not None
    assert "secret" not in ended.error


async def test_what_waits_for_failed_work_is_undone_and_cancelled(runner_setup: Bench) -> None:
    runner_setup.script.errors = [EngineError("no", transient=False)]
    first, second = await runner_setup.enqueue(runner_setup.wish(), runner_setup.wish(OperationAction.START_COMPUTE))
    assert (first.status, second.status) == (OperationStatus.RUNNING, OperationStatus.SCHEDULING)
    await runner_setup.run_to_end(first)
    ended = await runner_setup.run_to_end(second)
    assert ended.status is OperationStatus.CANCELLED
    assert runner_setup.script.did[-1] == "unfollow"
    assert "follow" not in runner_setup.script.did


async def test_work_waits_for_what_comes_first_and_says_when_it_had_nothing_to_do(runner_setup: Bench) -> None:
    first, second = await runner_setup.enqueue(runner_setup.wish(), runner_setup.wish(OperationAction.START_COMPUTE))
    ended = await runner_setup.run_to_end(second)
    assert (await runner_setup.now(first)).status is OperationStatus.FINISHED
    assert ended.status is OperationStatus.SKIPPED
    assert runner_setup.script.did == ["first", "second", "follow"]


async def test_a_long_sleep_gives_the_lease_back(runner_setup: Bench) -> None:
    runner_setup.script.sleeps = [3600]
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    await runner_setup.runner.run_until_idle()
    asleep = await runner_setup.now(operation)
    assert asleep.lease_until is None
    assert asleep.due_at > clock.now() + timedelta(minutes=50)
    assert not asleep.has_ended


async def test_a_runner_that_died_is_followed_by_another_at_the_recorded_step(
    runner_setup: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    dead = OperationRunner(runner_setup.store, NO_ENGINE, runner_setup.events, [toy(Script())], workers=1)
    leased = await dead._lease_next()
    assert leased is not None
    await dead._one_step(leased)  # `first` is recorded; then the process is gone
    await runner_setup.runner.run_until_idle()
    assert runner_setup.script.did == []  # the lease still holds
    later = clock.now() + timedelta(minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    ended = await runner_setup.run_to_end(operation)
    assert runner_setup.script.did == ["second"]
    assert (ended.status, ended.fence) == (OperationStatus.FINISHED, 2)


async def test_what_an_action_writes_comes_with_its_end_or_not_at_all(runner_setup: Bench) -> None:
    written, troubles = make_project(1), [EngineError("not now")]

    async def writes(rows: Rows) -> None:
        await rows.projects.add(written)  # twice would be once too often
        if troubles:
            raise troubles.pop()

    runner_setup.script.writes = writes
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    ended = await runner_setup.run_to_end(operation)
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 1)
    assert await runner_setup.has(written)


async def test_a_runner_that_lost_its_lease_writes_nothing(
    runner_setup: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = make_project(1)
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    slow = OperationRunner(
        runner_setup.store, NO_ENGINE, runner_setup.events, [toy(Script(writes=adding(written)))], workers=1
    )
    leased = await slow._lease_next()
    assert leased is not None
    halfway = await slow._one_step(leased)
    later = clock.now() + timedelta(minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    await runner_setup.run_to_end(operation)
    with pytest.raises(LostLease):
        await slow._one_step(halfway)
    assert not await runner_setup.has(written)


async def test_a_running_loop_is_woken_by_new_work(runner_setup: Bench) -> None:
    loop = asyncio.create_task(runner_setup.runner.run())
    await asyncio.sleep(0.05)
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    while not (await runner_setup.now(operation)).has_ended:
        await runner_setup.events.ended.wait(1)
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop
    assert runner_setup.script.did == ["first", "second"]


async def test_conflicting_work_is_waited_for(runner_setup: Bench) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    waiting = asyncio.create_task(runner_setup.enqueue(runner_setup.wish(OperationAction.START_COMPUTE)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await runner_setup.run_to_end(operation)
    (second,) = await waiting
    assert second.status is OperationStatus.RUNNING


async def test_conflicting_work_that_does_not_end_is_busy(runner_setup: Bench) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.wish())
    with pytest.raises(Busy, match=str(operation.id)) as refusal:
        await runner_setup.enqueue(runner_setup.wish(OperationAction.START_COMPUTE))
    assert refusal.value.retry_after
    async with runner_setup.store.read() as rows:
        assert await rows.operations.count_open() == 1


async def test_urgent_work_has_workers_of_its_own(runner_setup: Bench) -> None:
    """The others are all taken, and more ordinary work is due: it waits, and nobody looks for it all the time."""
    runner = OperationRunner(
        runner_setup.store, NO_ENGINE, runner_setup.events, [toy(runner_setup.script)], workers=0, urgent_workers=1
    )
    (ordinary,) = await runner_setup.enqueue(runner_setup.wish())
    assert await runner._until_due([True]) == POLL_SECONDS
    working = asyncio.create_task(runner.run())
    project = make_project(1)
    branch, endpoint = await add_project(runner_setup.store, project)
    wish = NewOperation(OperationAction.CREATE_TIMELINE, project.id, branch.id, endpoint.id)
    async with runner_setup.queue.locked_transaction(wish.lock) as rows:
        (urgent,) = await runner_setup.queue.enqueue(rows, [wish], "request", is_urgent=True)
    async with asyncio.timeout(30):
        while not (await runner_setup.now(urgent)).has_ended:
            await runner_setup.events.ended.wait(1)
    assert (await runner_setup.now(ordinary)).fence == 0
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_without_patience_a_conflict_is_busy_at_once(runner_setup: Bench) -> None:
    await runner_setup.enqueue(runner_setup.wish())
    with pytest.raises(Busy):
        async with runner_setup.queue.locked_transaction(runner_setup.wish().lock, can_wait=False):
            raise AssertionError("there is work in the way")
