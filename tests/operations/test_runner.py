"""The runner, with small test actions on a real store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from bough import clock
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import Lane, Operation, OperationKind, OperationStatus
from bough.domain.project import Project
from bough.engine.port import Engine, EngineError
from bough.errors import Busy
from bough.operations import crashes
from bough.operations.action import Action, ActionType, NewOperation, step
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.outcome import Done, Goto, Outcome, RowWriter, Sleep
from bough.operations.params import NoParams, UndecodableParams
from bough.operations.queue import OperationQueue
from bough.operations.registry import ActionRegistry
from bough.operations.runner import POLL_SECONDS, OperationRunner
from bough.operations.step_executor import MAX_FAILURES
from bough.store.operations import LostLease
from bough.store.sqlite import SqliteStore
from bough.store.store import Rows, Store
from support.stores import add_project, make_project

NO_ENGINE = cast(Engine, None)  # the test actions do not use it


@dataclass
class Script:
    """What the test actions do, and which methods ran."""

    calls: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)
    writes: RowWriter | None = None


def two_steps(script: Script) -> ActionType:
    class TwoSteps(Action[NoParams]):
        kind = OperationKind.CREATE_ROOT_BRANCH

        @classmethod
        def locks(cls, params: NoParams, step: str | None) -> LockRequest:
            return LockRequest(level=LockLevel.BRANCH, creates_branch=True)

        async def unfirst(self, _ctx: ActionContext) -> None:
            script.calls.append("unfirst")

        @step(undo=unfirst)
        async def first(self, _ctx: ActionContext) -> Outcome:
            script.calls.append("first")
            return Goto(self.second)

        async def unsecond(self, _ctx: ActionContext) -> None:
            script.calls.append("unsecond")

        @step(undo=unsecond)
        async def second(self, _ctx: ActionContext) -> Outcome:
            script.calls.append("second")
            if script.errors:
                raise script.errors.pop(0)
            if script.sleeps:
                return Sleep(script.sleeps.pop(0), "not yet")
            return Done("all good", writes=script.writes)

    return TwoSteps


def follower(script: Script) -> ActionType:
    class Follower(Action[NoParams]):
        kind = OperationKind.START_COMPUTE

        @classmethod
        def locks(cls, params: NoParams, step: str | None) -> LockRequest:
            return LockRequest(level=LockLevel.ENDPOINT)

        async def unfollow(self, _ctx: ActionContext) -> None:
            script.calls.append("unfollow")

        @step(undo=unfollow)
        async def follow(self, _ctx: ActionContext) -> Outcome:
            script.calls.append("follow")
            return Done("nothing to do", has_changed=False)

    return Follower


def adding(project: Project) -> RowWriter:
    async def writes(rows: Rows) -> None:
        await rows.projects.add(project)

    return writes


class RunnerSetup:
    """A store with one project, a queue and a runner with the test actions."""

    def __init__(self, store: Store, script: Script, ids: dict[str, Any]) -> None:
        self.store, self.script, self.ids = store, script, ids
        self.two_steps, self.follower = two_steps(script), follower(script)
        actions = ActionRegistry((self.two_steps, self.follower))
        self.events = Events()
        self.queue = OperationQueue(store, self.events, actions, conflict_timeout=0.3)
        self.runner = OperationRunner(store, NO_ENGINE, self.events, actions, workers=2)

    def new(self, action: ActionType | None = None) -> NewOperation:
        return NewOperation(action or self.two_steps, self.ids["project"], self.ids["branch"], self.ids["endpoint"])

    async def enqueue(self, *new_operations: NewOperation) -> list[Operation]:
        async with self.queue.locked_transaction(new_operations[0].lock) as rows:
            return await self.queue.enqueue(rows, new_operations, "request")

    async def reload(self, operation: Operation) -> Operation:
        async with self.store.read() as rows:
            found = await rows.operations.get(operation.id)
        assert found is not None
        return found

    async def has(self, project: Project) -> bool:
        async with self.store.read() as rows:
            return await rows.projects.get(project.id) is not None

    async def run_to_end(self, operation: Operation) -> Operation:
        while not (found := await self.reload(operation)).has_ended:
            await self.runner.run_until_idle()
            await asyncio.sleep(0.02)
        return found


@pytest.fixture
async def runner_setup(tmp_path: Path) -> AsyncIterator[RunnerSetup]:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    project = make_project()
    branch, endpoint = await add_project(store, project)
    yield RunnerSetup(store, Script(), {"project": project.id, "branch": branch.id, "endpoint": endpoint.id})
    await store.close()


async def test_steps_run_in_order_and_are_recorded(runner_setup: RunnerSetup) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    ended = await runner_setup.run_to_end(operation)
    assert runner_setup.script.calls == ["first", "second"]
    assert (ended.status, ended.steps_done, ended.error) == (OperationStatus.FINISHED, ("first", "second"), None)
    assert ended.started_at is not None
    assert ended.lease_until is None


async def test_a_step_that_only_an_earlier_version_had_begins_from_the_first(runner_setup: RunnerSetup) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    async with runner_setup.store.transaction() as rows:
        await rows.operations.save(replace(operation, step="publish", steps_done=("first", "gone")))
    ended = await runner_setup.run_to_end(operation)
    assert ended.status is OperationStatus.FINISHED
    assert runner_setup.script.calls == ["first", "second"]


async def test_a_transient_error_is_tried_again_and_leaves_no_trace(runner_setup: RunnerSetup) -> None:
    runner_setup.script.errors = [EngineError("not now"), EngineError("not now either")]
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    ended = await runner_setup.run_to_end(operation)
    assert (ended.status, ended.failures, ended.error) == (OperationStatus.FINISHED, 2, None)
    assert runner_setup.script.calls == ["first", "second", "second", "second"]


async def test_a_lasting_error_undoes_the_steps_in_reverse(runner_setup: RunnerSetup) -> None:
    runner_setup.script.errors = [EngineError("the disk is gone", transient=False)]
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    ended = await runner_setup.run_to_end(operation)
    assert runner_setup.script.calls == ["first", "second", "unsecond", "unfirst"]
    assert (ended.status, ended.error) == (OperationStatus.FAILED, "the disk is gone")


async def test_an_unexpected_error_is_not_shown_and_ends_after_some_tries(
    runner_setup: RunnerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = clock.now()
    runner_setup.script.errors = [ValueError("secret detail") for _ in range(MAX_FAILURES)]
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    ticks = iter(range(100))
    monkeypatch.setattr(clock, "now", lambda: began + timedelta(minutes=2 * next(ticks)))
    ended = await runner_setup.run_to_end(operation)
    assert (ended.status, ended.failures) == (OperationStatus.FAILED, MAX_FAILURES)
    assert ended.error is not None
    assert "secret" not in ended.error


async def test_what_waits_for_failed_work_is_undone_and_cancelled(runner_setup: RunnerSetup) -> None:
    runner_setup.script.errors = [EngineError("no", transient=False)]
    first, second = await runner_setup.enqueue(runner_setup.new(), runner_setup.new(runner_setup.follower))
    assert (first.status, second.status) == (OperationStatus.RUNNING, OperationStatus.SCHEDULING)
    await runner_setup.run_to_end(first)
    ended = await runner_setup.run_to_end(second)
    assert ended.status is OperationStatus.CANCELLED
    assert runner_setup.script.calls[-1] == "unfollow"
    assert "follow" not in runner_setup.script.calls


async def test_work_waits_for_what_comes_first_and_says_when_it_had_nothing_to_do(runner_setup: RunnerSetup) -> None:
    first, second = await runner_setup.enqueue(runner_setup.new(), runner_setup.new(runner_setup.follower))
    ended = await runner_setup.run_to_end(second)
    assert (await runner_setup.reload(first)).status is OperationStatus.FINISHED
    assert ended.status is OperationStatus.SKIPPED
    assert runner_setup.script.calls == ["first", "second", "follow"]


async def test_a_long_sleep_gives_the_lease_back(runner_setup: RunnerSetup) -> None:
    runner_setup.script.sleeps = [3600]
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    await runner_setup.runner.run_until_idle()
    asleep = await runner_setup.reload(operation)
    assert asleep.lease_until is None
    assert asleep.due_at > clock.now() + timedelta(minutes=50)
    assert not asleep.has_ended


async def test_a_runner_that_died_is_followed_by_another_at_the_recorded_step(
    runner_setup: RunnerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    dead = OperationRunner(
        runner_setup.store, NO_ENGINE, runner_setup.events, ActionRegistry([two_steps(Script())]), workers=1
    )
    leased = await dead._leases.lease_next()
    assert leased is not None
    await dead._executor.run_step(leased)  # `first` is recorded; then the process dies
    await runner_setup.runner.run_until_idle()
    assert runner_setup.script.calls == []  # the lease has not expired
    later = clock.now() + timedelta(minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    ended = await runner_setup.run_to_end(operation)
    assert runner_setup.script.calls == ["second"]
    assert (ended.status, ended.fence) == (OperationStatus.FINISHED, 2)


async def test_what_an_action_writes_comes_with_its_end_or_not_at_all(runner_setup: RunnerSetup) -> None:
    written, errors = make_project(1), [EngineError("not now")]

    async def writes(rows: Rows) -> None:
        await rows.projects.add(written)  # a second insert would fail
        if errors:
            raise errors.pop()

    runner_setup.script.writes = writes
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    ended = await runner_setup.run_to_end(operation)
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 1)
    assert await runner_setup.has(written)


async def test_a_runner_that_lost_its_lease_writes_nothing(
    runner_setup: RunnerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = make_project(1)
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    slow = OperationRunner(
        runner_setup.store,
        NO_ENGINE,
        runner_setup.events,
        ActionRegistry([two_steps(Script(writes=adding(written)))]),
        workers=1,
    )
    leased = await slow._leases.lease_next()
    assert leased is not None
    halfway = await slow._executor.run_step(leased)
    later = clock.now() + timedelta(minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    await runner_setup.run_to_end(operation)
    with pytest.raises(LostLease):
        await slow._executor.run_step(halfway)
    assert not await runner_setup.has(written)


async def test_an_operation_that_cannot_be_decoded_is_set_aside_with_the_reason(
    runner_setup: RunnerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    async with runner_setup.store.transaction() as rows:
        await rows.operations.save(replace(operation, parameters={"version": 2}))
    began = clock.now()
    for minutes in range(2 * crashes.MAX_CRASHES):
        monkeypatch.setattr(clock, "now", lambda now=began + timedelta(minutes=minutes): now)
        with suppress(UndecodableParams):
            await runner_setup.runner.run_until_idle()
    aside = await runner_setup.reload(operation)
    assert crashes.is_set_aside(aside)
    assert (
        aside.error
        == "The operation is set aside: this version cannot read it. Contact the operator of this installation."
    )
    assert runner_setup.script.calls == []


async def test_a_running_loop_is_woken_by_new_work(runner_setup: RunnerSetup) -> None:
    loop = asyncio.create_task(runner_setup.runner.run())
    await asyncio.sleep(0.05)
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    while not (await runner_setup.reload(operation)).has_ended:
        await runner_setup.events.ended.wait(1)
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop
    assert runner_setup.script.calls == ["first", "second"]


async def test_conflicting_work_is_waited_for(runner_setup: RunnerSetup) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    waiting = asyncio.create_task(runner_setup.enqueue(runner_setup.new(runner_setup.follower)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await runner_setup.run_to_end(operation)
    (second,) = await waiting
    assert second.status is OperationStatus.RUNNING


async def test_conflicting_work_that_does_not_end_is_busy(runner_setup: RunnerSetup) -> None:
    (operation,) = await runner_setup.enqueue(runner_setup.new())
    with pytest.raises(Busy, match=str(operation.id)) as refusal:
        await runner_setup.enqueue(runner_setup.new(runner_setup.follower))
    assert refusal.value.retry_after
    async with runner_setup.store.read() as rows:
        assert await rows.operations.count_open() == 1


async def test_urgent_work_has_workers_of_its_own(runner_setup: RunnerSetup) -> None:
    """All other workers are busy and an ordinary operation is due: it waits, and the runner does not poll for it."""
    runner = OperationRunner(
        runner_setup.store,
        NO_ENGINE,
        runner_setup.events,
        ActionRegistry([two_steps(runner_setup.script)]),
        workers=0,
        urgent_workers=1,
    )
    (ordinary,) = await runner_setup.enqueue(runner_setup.new())
    assert await runner._until_due([Lane.URGENT]) == POLL_SECONDS
    working = asyncio.create_task(runner.run())
    project = make_project(1)
    branch, endpoint = await add_project(runner_setup.store, project)
    new = NewOperation(runner_setup.two_steps, project.id, branch.id, endpoint.id)
    async with runner_setup.queue.locked_transaction(new.lock) as rows:
        (urgent,) = await runner_setup.queue.enqueue(rows, [new], "request", is_urgent=True)
    async with asyncio.timeout(30):
        while not (await runner_setup.reload(urgent)).has_ended:
            await runner_setup.events.ended.wait(1)
    assert (await runner_setup.reload(ordinary)).fence == 0
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_without_patience_a_conflict_is_busy_at_once(runner_setup: RunnerSetup) -> None:
    await runner_setup.enqueue(runner_setup.new())
    with pytest.raises(Busy):
        async with runner_setup.queue.locked_transaction(runner_setup.new().lock, can_wait=False):
            raise AssertionError("an operation conflicts")
