"""Rule 3: operations that wait for an unresponsive compute leave workers to other projects."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.engine.port import Engine
from bough.ids import ProjectId
from bough.operations import workers
from bough.operations.action import Action, ActionType, step
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.outcome import Done, Outcome
from bough.operations.params import NoParams
from bough.operations.registry import ActionRegistry
from bough.operations.runner import OperationRunner
from bough.operations.workers import max_workers_per_project
from bough.store.store import Store
from support.postgres import PostgresServer
from support.stores import BACKENDS, NOON, add_project, make_operation, make_project, open_store

WORKERS = 4
OPERATION_COUNT = 3 * WORKERS


class BlockingAction:
    """Makes an action that blocks for all projects except one, and counts the blocked operations of each project."""

    def __init__(self) -> None:
        self.unblocked_project: ProjectId | None = None
        self.unblocked_ran = asyncio.Event()
        self.blocked: Counter[ProjectId] = Counter()
        self.max_blocked: Counter[ProjectId] = Counter()

    def make_action(self) -> ActionType:
        blocking = self

        class Blocks(Action[NoParams]):
            kind = OperationKind.APPLY_CONFIG

            @classmethod
            def locks(cls, params: NoParams, step: str | None) -> LockRequest:
                return LockRequest(level=LockLevel.ENDPOINT)

            @step
            async def wait(self, _ctx: ActionContext) -> Outcome:
                if self.project_id == blocking.unblocked_project:
                    blocking.unblocked_ran.set()
                    return Done("nothing to wait for")
                blocking.blocked[self.project_id] += 1
                blocking.max_blocked |= blocking.blocked
                try:
                    await asyncio.Event().wait()
                finally:
                    blocking.blocked[self.project_id] -= 1
                raise AssertionError

        return Blocks


@pytest.fixture(params=BACKENDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Store]:
    async with open_store(request.param, tmp_path, postgres_server) as opened:
        yield opened


async def enqueue(store: Store, count: int, *, urgent: bool, minute: int = 0) -> ProjectId:
    due_at = NOON + timedelta(minutes=minute)
    project = make_project()
    await add_project(store, project)
    async with store.transaction() as rows:
        for _ in range(count):
            await rows.operations.add(
                make_operation(
                    project.id,
                    kind=OperationKind.APPLY_CONFIG,
                    step="wait",
                    is_urgent=urgent,
                    parameters={},
                    due_at=due_at,
                )
            )
    return project.id


@asynccontextmanager
async def run_operations(store: Store, blocking: BlockingAction) -> AsyncIterator[None]:
    operation_runner = OperationRunner(
        store,
        cast(Engine, None),
        Events(),
        ActionRegistry([blocking.make_action()]),
        workers=WORKERS,
        urgent_workers=WORKERS,
    )
    task = asyncio.create_task(operation_runner.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("urgent", [False, True], ids=["others", "urgent"])
async def test_one_project_never_has_all_workers(store: Store, urgent: bool) -> None:
    blocking = BlockingAction()
    blocked_project = await enqueue(store, OPERATION_COUNT, urgent=urgent)
    blocking.unblocked_project = await enqueue(store, 1, urgent=urgent, minute=1)
    async with run_operations(store, blocking), asyncio.timeout(60):  # a failing test would otherwise never end
        await blocking.unblocked_ran.wait()
    assert blocking.max_blocked[blocked_project] == max_workers_per_project(WORKERS) < WORKERS


async def test_what_takes_long_makes_room_up_to_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two projects together occupy all workers."""
    monkeypatch.setattr(workers, "LONG_RUNNING_SECONDS", 0.05)
    blocking = BlockingAction()
    blocked_projects = [await enqueue(store, OPERATION_COUNT, urgent=False) for _ in range(2)]
    blocking.unblocked_project = await enqueue(store, 1, urgent=False, minute=1)
    async with run_operations(store, blocking), asyncio.timeout(60):
        await blocking.unblocked_ran.wait()
    assert WORKERS < sum(blocking.max_blocked[project] for project in blocked_projects) <= 2 * WORKERS


@pytest.mark.parametrize(("workers", "expected"), [(1, 1), (2, 1), (4, 3), (8, 6), (16, 12)])
def test_how_many_a_project_may_have(workers: int, expected: int) -> None:
    assert max_workers_per_project(workers) == expected
