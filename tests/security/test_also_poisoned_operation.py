"""Also: an operation whose step kills control is not repeated for ever. It is undone or set aside, and reported."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from bough import clock
from bough.domain.locks import LockLevel, LockRequest, LockScope
from bough.domain.operation import Operation, OperationKind, OperationStatus
from bough.engine.port import Engine
from bough.errors import Busy
from bough.operations import crashes
from bough.operations.action import Action, ActionType, NewOperation, step
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.outcome import Done, Goto, Outcome
from bough.operations.params import NoParams
from bough.operations.queue import OperationQueue
from bough.operations.registry import ActionRegistry
from bough.operations.runner import OperationRunner
from bough.store.store import Store
from security import control_crash
from support.platform import install_templates, temporary_folder
from support.postgres import PostgresServer
from support.program import ONE_WORKER, Program, wait_until
from support.stores import EVERYDAY_BACKENDS, add_project, make_project, open_store

LOOKS = 3000  # after which a test gives up
ENDED = {"finished", "failed", "cancelled", "skipped"}

# A real control process that dies.


@pytest.fixture
def owner(program: Program) -> Iterator["Owner"]:
    made = Owner(program.up())
    with made.client:
        yield made


@pytest.fixture
def program() -> Iterator[Program]:
    with temporary_folder() as folder:
        install_templates(folder / "home")
        variables = {
            **ONE_WORKER,
            **control_crash.make_crash_environment(folder),
            "BOUGH_FREE_SPACE_FLOOR": "0",
            "BOUGH_RATE_PER_MINUTE": "100000",
        }
        made = Program(folder / "home", variables)
        yield made
        Path(variables[control_crash.CRASH_VARIABLE]).unlink(missing_ok=True)
        made.clean_up()


class Owner:
    """Somebody whose calls are repeated while control is away."""

    def __init__(self, said: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {said['api_key']}"}
        self.client = httpx2.Client(base_url=said["api_url"] + "/", headers=headers, timeout=30, verify=False)

    def call(self, method: str, path: str, **body: Any) -> httpx2.Response:
        while True:
            try:
                answer = self.client.request(method, path, json=body or None)
            except httpx2.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code != 503:
                return answer
            time.sleep(0.05)

    def project(self) -> dict[str, Any]:
        made: dict[str, Any] = self.call("POST", "projects", project={}).json()
        return made

    def operation(self, made: dict[str, Any], number: int = -1) -> dict[str, Any]:
        one = made["operations"][number]
        found: dict[str, Any] = self.call("GET", f"projects/{one['project_id']}/operations/{one['id']}").json()
        return found["operation"]  # type: ignore[no-any-return]

    def until_ended(self, made: dict[str, Any]) -> str:
        def status() -> str | None:
            found = [self.operation(made, number)["status"] for number in range(len(made["operations"]))]
            return found[-1] if set(found) <= ENDED else None

        return wait_until(status, seconds=90)


def crashes_of(home: Path, operation_id: str) -> int:
    with closing(sqlite3.connect(f"file:{home / 'store.db'}?mode=ro", uri=True)) as store:
        [(count,)] = store.execute("select crashes from operations where id = ?", (operation_id,)).fetchall()
    return int(count)


@pytest.mark.long
def test_a_step_that_kills_control_is_set_aside_and_others_go_on(program: Program, owner: Owner) -> None:
    poisoned = owner.project()
    assert owner.until_ended(poisoned) == "finished"
    endpoint = poisoned["endpoints"][0]["id"]
    file = Path(program.variables[control_crash.CRASH_VARIABLE])
    file.write_text(endpoint)
    stop = owner.call("POST", f"projects/{poisoned['project']['id']}/endpoints/{endpoint}/suspend").json()
    innocent = [owner.project() for _ in range(2)]  # begun while control dies
    assert [owner.until_ended(made) for made in innocent] == ["finished", "finished"]

    def aside() -> dict[str, Any] | None:
        found = owner.operation(stop)
        return found if "set aside" in found.get("error", "") else None

    shown = wait_until(aside, seconds=90)
    assert shown["status"] == "running"
    assert shown["retry_at"] is not None
    assert crashes_of(program.home, shown["id"]) == crashes.MAX_CRASHES
    control = program.status()["control_pid"]
    assert owner.until_ended(owner.project()) == "finished"
    assert program.status()["control_pid"] == control  # it does not die any more
    health = owner.call("GET", "../../healthz").json()
    assert (health["operations_set_aside"], health["status"]) == (1, "ok")
    assert 'bough_state{thing="operations_set_aside"} 1.0' in owner.call("GET", "../../metrics").text
    assert "An operation is set aside" in program("doctor").stdout
    refused = owner.call("POST", f"projects/{poisoned['project']['id']}/endpoints/{endpoint}/restart")
    assert refused.status_code == 423
    assert "set aside" in refused.json()["message"]

    file.unlink()  # the cause is gone, and the operator restarts
    assert program("restart").returncode == 0
    assert owner.until_ended(stop) == "finished"
    assert owner.call("GET", "../../healthz").json()["operations_set_aside"] == 0


# The runner, with a small action and controls that die.


class Died(BaseException):
    """Control ends in the middle of a step, and nothing is recorded."""


class Steps:
    def __init__(self) -> None:
        self.kills: set[str] = set()
        self.began: list[str] = []
        self.blocks = False  # the second step waits for `go_on`
        self.go_on = asyncio.Event()

    def begin(self, name: str) -> None:
        self.began.append(name)
        if name in self.kills:
            raise Died


def action_of(steps: Steps, action_kind: OperationKind, *, one_way: bool) -> ActionType:
    class TwoSteps(Action[NoParams]):
        kind = action_kind
        is_forward_only = one_way

        @classmethod
        def locks(cls, params: NoParams, step: str | None) -> LockRequest:
            return LockRequest(level=LockLevel.ENDPOINT)

        async def unfirst(self, _ctx: ActionContext) -> None:
            steps.begin(f"{self.kind} unfirst")

        @step(undo=unfirst)
        async def first(self, _ctx: ActionContext) -> Outcome:
            steps.begin(f"{self.kind} first")
            return Goto(self.second)

        @step
        async def second(self, _ctx: ActionContext) -> Outcome:
            steps.begin(f"{self.kind} second")
            if steps.blocks:
                await steps.go_on.wait()
            return Done("done")

    return TwoSteps


class Controls:
    """One control after another on the same store."""

    def __init__(self, store: Store, ids: dict[str, Any]) -> None:
        self.store, self.steps, self._ids = store, Steps(), ids
        both = ((OperationKind.CREATE_BRANCH, False), (OperationKind.SUSPEND_COMPUTE, True))
        self._actions = ActionRegistry(action_of(self.steps, kind, one_way=one_way) for kind, one_way in both)
        self.queue = OperationQueue(store, Events(), self._actions, hold_seconds=0)

    async def enqueue(self, kind: OperationKind) -> Operation:
        new = NewOperation(self._actions.get(kind), self._ids["project"], None, None)
        async with self.store.transaction() as rows:
            return (await self.queue.enqueue(rows, [new], "test"))[0]

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A control that works, and stops in order."""
        task = asyncio.create_task(self._runner().run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until_began(self, count: int) -> None:
        for _ in range(LOOKS):
            if len(self.steps.began) >= count:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(self.steps.began)

    async def until_ended(self, operation: Operation) -> None:
        for _ in range(LOOKS):
            if (await self.now(operation)).has_ended:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(await self.now(operation))

    def _runner(self) -> OperationRunner:
        return OperationRunner(self.store, cast(Engine, None), Events(), self._actions, workers=4)

    async def run(self) -> bool:
        """A control works until it dies, True, or has nothing to do."""
        async with self.store.transaction() as rows:
            await rows.operations.expire_leases()
        try:
            await self._runner().run_until_idle()
        except Died:
            return True
        return False

    async def now(self, operation: Operation) -> Operation:
        async with self.store.read() as rows:
            found = await rows.operations.get(operation.id)
        assert found is not None
        return found


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.past = timedelta()
        now = clock.now
        monkeypatch.setattr(clock, "now", lambda: now() + self.past)

    def skip(self, **units: float) -> None:
        self.past += timedelta(**units)


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def controls(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Controls]:
    async with open_store(request.param, tmp_path, postgres_server) as store:
        project = make_project()
        await add_project(store, project)
        yield Controls(store, {"project": project.id})


async def deaths(controls: Controls, moments: Time, most: int = 30) -> int:
    """How often control dies while a minute passes between two starts."""
    count = 0
    for _ in range(most):
        count += await controls.run()
        moments.skip(minutes=1)
    return count


async def test_what_can_be_undone_is_undone(controls: Controls, moments: Time) -> None:
    controls.steps.kills = {"create_branch second"}
    operation = await controls.enqueue(OperationKind.CREATE_BRANCH)
    assert await deaths(controls, moments) == crashes.MAX_CRASHES
    ended = await controls.now(operation)
    assert (ended.status, controls.steps.began[-1]) == (OperationStatus.FAILED, "create_branch unfirst")
    assert ended.error is not None
    assert "crashed the control process 5 times" in ended.error


async def test_an_undo_that_kills_too_is_set_aside(controls: Controls, moments: Time) -> None:
    controls.steps.kills = {"create_branch second", "create_branch unfirst"}
    operation = await controls.enqueue(OperationKind.CREATE_BRANCH)
    assert await deaths(controls, moments) == 2 * crashes.MAX_CRASHES
    aside = await controls.now(operation)
    assert crashes.is_set_aside(aside)
    assert "undoing its step 'first'" in (aside.error or "")


async def test_one_that_is_set_aside_is_tried_ever_more_rarely(controls: Controls, moments: Time) -> None:
    controls.steps.kills = {"suspend_compute first"}
    operation = await controls.enqueue(OperationKind.SUSPEND_COMPUTE)
    assert await deaths(controls, moments) == crashes.MAX_CRASHES
    moments.skip(hours=1)
    assert await deaths(controls, moments) == 1
    moments.skip(hours=1)
    assert await deaths(controls, moments) == 0
    moments.skip(hours=1)
    controls.steps.kills.clear()
    assert await deaths(controls, moments, most=1) == 0
    ended = await controls.now(operation)
    assert (ended.status, ended.error) == (OperationStatus.FINISHED, None)


async def test_progress_resets_the_count(controls: Controls, moments: Time) -> None:
    operation = await controls.enqueue(OperationKind.CREATE_BRANCH)
    for name in ("create_branch first", "create_branch second"):
        controls.steps.kills = {name}
        for _ in range(crashes.MAX_CRASHES - 1):
            while not await controls.run():
                moments.skip(minutes=1)
    controls.steps.kills.clear()
    assert await deaths(controls, moments, most=2) == 0
    assert (await controls.now(operation)).status is OperationStatus.FINISHED


async def test_an_orderly_stop_is_no_crash(controls: Controls) -> None:
    """However often it happens during one step, which the next control resumes."""
    operation = await controls.enqueue(OperationKind.SUSPEND_COMPUTE)
    controls.steps.blocks = True
    for stops in range(crashes.MAX_CRASHES + 1):
        async with controls.working():
            await controls.until_began(stops + 2)  # the first step is taken once, the second again and again
        stopped = await controls.now(operation)
        assert (stopped.lease_until, stopped.crashes, stopped.step) == (None, 0, "second")


async def test_suspects_run_one_at_a_time_and_others_beside_them(controls: Controls) -> None:
    """So that only the one to blame is counted further."""
    suspects = [await controls.enqueue(OperationKind.SUSPEND_COMPUTE) for _ in range(3)]
    async with controls.store.transaction() as rows:
        for each in suspects:
            await rows.operations.save(replace(each, crashes=crashes.SUSPECT_CRASHES, step="second"))
    controls.steps.blocks = True
    async with controls.working():
        other = await controls.enqueue(OperationKind.CREATE_BRANCH)
        await controls.until_began(3)  # one suspect, and both steps of the other
        await asyncio.sleep(0.1)
        held = [await controls.now(each) for each in (*suspects, other)]
        assert sorted(controls.steps.began) == ["create_branch first", "create_branch second", "suspend_compute second"]
        assert [each.lease_until is not None for each in held].count(True) == 2
        controls.steps.go_on.set()
        for each in (*suspects, other):
            await controls.until_ended(each)


async def test_what_a_set_aside_operation_holds_is_refused_with_the_reason(controls: Controls, moments: Time) -> None:
    controls.steps.kills = {"suspend_compute first"}
    operation = await controls.enqueue(OperationKind.SUSPEND_COMPUTE)
    await deaths(controls, moments)
    aside = await controls.now(operation)
    with pytest.raises(Busy, match="set aside: its step 'first' crashed the control process 5 times"):
        async with controls.queue.locked_transaction(LockScope(level=LockLevel.PROJECT, project_id=aside.project_id)):
            pass
