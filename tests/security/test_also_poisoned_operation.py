"""An operation with a step that kills control is not retried forever: it is undone or set aside, and reported."""

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

MAX_POLLS = 3000  # polls before a test fails
ENDED = {"finished", "failed", "cancelled", "skipped"}

# A real control process that is killed.


@pytest.fixture
def api(program: Program) -> Iterator["RetryingApiClient"]:
    client = RetryingApiClient(program.up())
    with client.client:
        yield client


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
        started = Program(folder / "home", variables)
        yield started
        Path(variables[control_crash.CRASH_VARIABLE]).unlink(missing_ok=True)
        started.clean_up()


class RetryingApiClient:
    """An API client that repeats requests while control is down."""

    def __init__(self, up_output: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {up_output['api_key']}"}
        self.client = httpx2.Client(base_url=up_output["api_url"] + "/", headers=headers, timeout=30, verify=False)

    def call(self, method: str, path: str, **body: Any) -> httpx2.Response:
        while True:
            try:
                response = self.client.request(method, path, json=body or None)
            except httpx2.TransportError:
                time.sleep(0.05)
                continue
            if response.status_code != 503:
                return response
            time.sleep(0.05)

    def create_project(self) -> dict[str, Any]:
        created: dict[str, Any] = self.call("POST", "projects", project={}).json()
        return created

    def get_operation(self, created: dict[str, Any], number: int = -1) -> dict[str, Any]:
        operation = created["operations"][number]
        body: dict[str, Any] = self.call(
            "GET", f"projects/{operation['project_id']}/operations/{operation['id']}"
        ).json()
        return body["operation"]  # type: ignore[no-any-return]

    def wait_until_ended(self, created: dict[str, Any]) -> str:
        def status() -> str | None:
            statuses = [self.get_operation(created, number)["status"] for number in range(len(created["operations"]))]
            return statuses[-1] if set(statuses) <= ENDED else None

        return wait_until(status, seconds=90)


def read_crash_count(home: Path, operation_id: str) -> int:
    with closing(sqlite3.connect(f"file:{home / 'store.db'}?mode=ro", uri=True)) as store:
        [(count,)] = store.execute("select crashes from operations where id = ?", (operation_id,)).fetchall()
    return int(count)


@pytest.mark.long
def test_a_step_that_kills_control_is_set_aside_and_others_go_on(program: Program, api: RetryingApiClient) -> None:
    poisoned = api.create_project()
    assert api.wait_until_ended(poisoned) == "finished"
    endpoint = poisoned["endpoints"][0]["id"]
    crash_file = Path(program.variables[control_crash.CRASH_VARIABLE])
    crash_file.write_text(endpoint)
    suspended = api.call("POST", f"projects/{poisoned['project']['id']}/endpoints/{endpoint}/suspend").json()
    innocent = [api.create_project() for _ in range(2)]  # created while control crashes repeatedly
    assert [api.wait_until_ended(created) for created in innocent] == ["finished", "finished"]

    def find_set_aside() -> dict[str, Any] | None:
        operation = api.get_operation(suspended)
        return operation if "set aside" in operation.get("error", "") else None

    set_aside = wait_until(find_set_aside, seconds=90)
    assert set_aside["status"] == "running"
    assert set_aside["retry_at"] is not None
    assert read_crash_count(program.home, set_aside["id"]) == crashes.MAX_CRASHES
    control = program.status()["control_pid"]
    assert api.wait_until_ended(api.create_project()) == "finished"
    assert program.status()["control_pid"] == control  # it no longer crashes
    health = api.call("GET", "../../healthz").json()
    assert (health["operations_set_aside"], health["status"]) == (1, "ok")
    assert 'bough_state{thing="operations_set_aside"} 1.0' in api.call("GET", "../../metrics").text
    assert "An operation is set aside" in program("doctor").stdout
    response = api.call("POST", f"projects/{poisoned['project']['id']}/endpoints/{endpoint}/restart")
    assert response.status_code == 423
    assert "set aside" in response.json()["message"]

    crash_file.unlink()  # the operator removes the cause and restarts
    assert program("restart").returncode == 0
    assert api.wait_until_ended(suspended) == "finished"
    assert api.call("GET", "../../healthz").json()["operations_set_aside"] == 0


# The runner with a small action, in simulated control processes.


class ControlCrash(BaseException):
    """Simulates the end of control during a step: nothing is recorded."""


class Steps:
    def __init__(self) -> None:
        self.kills: set[str] = set()
        self.started: list[str] = []
        self.is_blocking = False  # the second step waits for `resume`
        self.resume = asyncio.Event()

    def begin(self, name: str) -> None:
        self.started.append(name)
        if name in self.kills:
            raise ControlCrash


def make_action(steps: Steps, action_kind: OperationKind, *, one_way: bool) -> ActionType:
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
            if steps.is_blocking:
                await steps.resume.wait()
            return Done("done")

    return TwoSteps


class ControlSimulator:
    """Runs one control after another on the same store."""

    def __init__(self, store: Store, ids: dict[str, Any]) -> None:
        self.store, self.steps, self._ids = store, Steps(), ids
        kinds = ((OperationKind.CREATE_BRANCH, False), (OperationKind.SUSPEND_COMPUTE, True))
        self._actions = ActionRegistry(make_action(self.steps, kind, one_way=one_way) for kind, one_way in kinds)
        self.queue = OperationQueue(store, Events(), self._actions, conflict_timeout=0)

    async def enqueue(self, kind: OperationKind) -> Operation:
        new = NewOperation(self._actions.get(kind), self._ids["project"], None, None)
        async with self.store.transaction() as rows:
            return (await self.queue.enqueue(rows, [new], "test"))[0]

    @asynccontextmanager
    async def run_in_background(self) -> AsyncIterator[None]:
        """Runs a control inside the block and stops it cleanly."""
        task = asyncio.create_task(self._runner().run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def wait_for_started(self, count: int) -> None:
        for _ in range(MAX_POLLS):
            if len(self.steps.started) >= count:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(self.steps.started)

    async def wait_until_ended(self, operation: Operation) -> None:
        for _ in range(MAX_POLLS):
            if (await self.read_operation(operation)).has_ended:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(await self.read_operation(operation))

    def _runner(self) -> OperationRunner:
        return OperationRunner(self.store, cast(Engine, None), Events(), self._actions, workers=4)

    async def run(self) -> bool:
        """Runs a control until it has no more work; returns True if it crashed."""
        async with self.store.transaction() as rows:
            await rows.operations.expire_leases()
        try:
            await self._runner().run_until_idle()
        except ControlCrash:
            return True
        return False

    async def read_operation(self, operation: Operation) -> Operation:
        async with self.store.read() as rows:
            current = await rows.operations.get(operation.id)
        assert current is not None
        return current


class FakeClock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = timedelta()
        now = clock.now
        monkeypatch.setattr(clock, "now", lambda: now() + self.offset)

    def skip(self, **units: float) -> None:
        self.offset += timedelta(**units)


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def simulator(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[ControlSimulator]:
    async with open_store(request.param, tmp_path, postgres_server) as store:
        project = make_project()
        await add_project(store, project)
        yield ControlSimulator(store, {"project": project.id})


async def count_crashes(simulator: ControlSimulator, fake_clock: FakeClock, starts: int = 30) -> int:
    """Starts control repeatedly, one minute apart, and returns the number of crashes."""
    count = 0
    for _ in range(starts):
        count += await simulator.run()
        fake_clock.skip(minutes=1)
    return count


async def test_what_can_be_undone_is_undone(simulator: ControlSimulator, fake_clock: FakeClock) -> None:
    simulator.steps.kills = {"create_branch second"}
    operation = await simulator.enqueue(OperationKind.CREATE_BRANCH)
    assert await count_crashes(simulator, fake_clock) == crashes.MAX_CRASHES
    ended = await simulator.read_operation(operation)
    assert (ended.status, simulator.steps.started[-1]) == (OperationStatus.FAILED, "create_branch unfirst")
    assert ended.error is not None
    assert "crashed the control process 5 times" in ended.error


async def test_an_undo_that_kills_too_is_set_aside(simulator: ControlSimulator, fake_clock: FakeClock) -> None:
    simulator.steps.kills = {"create_branch second", "create_branch unfirst"}
    operation = await simulator.enqueue(OperationKind.CREATE_BRANCH)
    assert await count_crashes(simulator, fake_clock) == 2 * crashes.MAX_CRASHES
    set_aside = await simulator.read_operation(operation)
    assert crashes.is_set_aside(set_aside)
    assert "undoing its step 'first'" in (set_aside.error or "")


async def test_one_that_is_set_aside_is_tried_ever_more_rarely(
    simulator: ControlSimulator, fake_clock: FakeClock
) -> None:
    simulator.steps.kills = {"suspend_compute first"}
    operation = await simulator.enqueue(OperationKind.SUSPEND_COMPUTE)
    assert await count_crashes(simulator, fake_clock) == crashes.MAX_CRASHES
    fake_clock.skip(hours=1)
    assert await count_crashes(simulator, fake_clock) == 1
    fake_clock.skip(hours=1)
    assert await count_crashes(simulator, fake_clock) == 0
    fake_clock.skip(hours=1)
    simulator.steps.kills.clear()
    assert await count_crashes(simulator, fake_clock, starts=1) == 0
    ended = await simulator.read_operation(operation)
    assert (ended.status, ended.error) == (OperationStatus.FINISHED, None)


async def test_progress_resets_the_count(simulator: ControlSimulator, fake_clock: FakeClock) -> None:
    operation = await simulator.enqueue(OperationKind.CREATE_BRANCH)
    for name in ("create_branch first", "create_branch second"):
        simulator.steps.kills = {name}
        for _ in range(crashes.MAX_CRASHES - 1):
            while not await simulator.run():
                fake_clock.skip(minutes=1)
    simulator.steps.kills.clear()
    assert await count_crashes(simulator, fake_clock, starts=2) == 0
    assert (await simulator.read_operation(operation)).status is OperationStatus.FINISHED


async def test_an_orderly_stop_is_no_crash(simulator: ControlSimulator) -> None:
    """This holds for any number of stops during one step, which the next control resumes."""
    operation = await simulator.enqueue(OperationKind.SUSPEND_COMPUTE)
    simulator.steps.is_blocking = True
    for stops in range(crashes.MAX_CRASHES + 1):
        async with simulator.run_in_background():
            await simulator.wait_for_started(stops + 2)  # the first step runs once, the second after each start
        stopped = await simulator.read_operation(operation)
        assert (stopped.lease_until, stopped.crashes, stopped.step) == (None, 0, "second")


async def test_suspects_run_one_at_a_time_and_others_beside_them(simulator: ControlSimulator) -> None:
    """Then only the operation that causes the crash is counted further."""
    suspects = [await simulator.enqueue(OperationKind.SUSPEND_COMPUTE) for _ in range(3)]
    async with simulator.store.transaction() as rows:
        for operation in suspects:
            await rows.operations.save(replace(operation, crashes=crashes.SUSPECT_CRASHES, step="second"))
    simulator.steps.is_blocking = True
    async with simulator.run_in_background():
        other = await simulator.enqueue(OperationKind.CREATE_BRANCH)
        await simulator.wait_for_started(3)  # one suspect and both steps of the other operation
        await asyncio.sleep(0.1)
        operations = [await simulator.read_operation(operation) for operation in (*suspects, other)]
        assert sorted(simulator.steps.started) == [
            "create_branch first",
            "create_branch second",
            "suspend_compute second",
        ]
        assert [operation.lease_until is not None for operation in operations].count(True) == 2
        simulator.steps.resume.set()
        for operation in (*suspects, other):
            await simulator.wait_until_ended(operation)


async def test_what_a_set_aside_operation_holds_is_refused_with_the_reason(
    simulator: ControlSimulator, fake_clock: FakeClock
) -> None:
    simulator.steps.kills = {"suspend_compute first"}
    operation = await simulator.enqueue(OperationKind.SUSPEND_COMPUTE)
    await count_crashes(simulator, fake_clock)
    set_aside = await simulator.read_operation(operation)
    with pytest.raises(Busy, match="set aside: its step 'first' crashed the control process 5 times"):
        async with simulator.queue.locked_transaction(LockScope.project(set_aside.project_id)):
            pass
