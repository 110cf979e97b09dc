"""Row 3: operations that wait for a compute which never answers leave workers for other projects."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from bough.domain.operation import OperationKind
from bough.engine.port import Engine
from bough.ids import ProjectId
from bough.operations import runner
from bough.operations.action import Action, ActionType, step
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.outcome import Done, Outcome
from bough.operations.params import NoParams
from bough.operations.registry import ActionRegistry
from bough.operations.runner import OperationRunner, max_workers_per_project
from bough.store.store import Store
from support.postgres import PostgresServer
from support.stores import BACKENDS, NOON, add_project, make_operation, make_project, open_store

WORKERS = 4
MANY = 3 * WORKERS


class Waiting:
    """An action that waits without end, but for one project, and how many of each project do at once."""

    def __init__(self) -> None:
        self.quick: ProjectId | None = None
        self.is_done = asyncio.Event()
        self.held: Counter[ProjectId] = Counter()
        self.most: Counter[ProjectId] = Counter()

    def action(self) -> ActionType:
        waiting = self

        class Waits(Action[NoParams]):
            kind = OperationKind.APPLY_CONFIG

            @step
            async def wait(self, _ctx: ActionContext) -> Outcome:
                if self.project_id == waiting.quick:
                    waiting.is_done.set()
                    return Done("nothing to wait for")
                waiting.held[self.project_id] += 1
                waiting.most |= waiting.held
                try:
                    await asyncio.Event().wait()
                finally:
                    waiting.held[self.project_id] -= 1
                raise AssertionError

        return Waits


@pytest.fixture(params=BACKENDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer
) -> AsyncIterator[Store]:
    async with open_store(request.param, tmp_path, postgres_server) as made:
        yield made


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
async def running(store: Store, waiting: Waiting) -> AsyncIterator[None]:
    made = OperationRunner(
        store, cast(Engine, None), Events(), ActionRegistry([waiting.action()]), workers=WORKERS, urgent_workers=WORKERS
    )
    task = asyncio.create_task(made.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("urgent", [False, True], ids=["others", "urgent"])
async def test_one_project_never_has_all_workers(store: Store, urgent: bool) -> None:
    waiting = Waiting()
    stuck = await enqueue(store, MANY, urgent=urgent)
    waiting.quick = await enqueue(store, 1, urgent=urgent, minute=1)
    async with running(store, waiting), asyncio.timeout(60):  # without it a failure would never end
        await waiting.is_done.wait()
    assert waiting.most[stuck] == max_workers_per_project(WORKERS) < WORKERS


async def test_what_takes_long_makes_room_up_to_a_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two projects together have all workers."""
    monkeypatch.setattr(runner, "LONG_RUNNING_SECONDS", 0.05)
    waiting = Waiting()
    stuck = [await enqueue(store, MANY, urgent=False) for _ in range(2)]
    waiting.quick = await enqueue(store, 1, urgent=False, minute=1)
    async with running(store, waiting), asyncio.timeout(60):
        await waiting.is_done.wait()
    assert WORKERS < sum(waiting.most[each] for each in stuck) <= 2 * WORKERS


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (2, 1), (4, 3), (8, 6), (16, 12)])
def test_how_many_a_project_may_have(workers: int, most: int) -> None:
    assert max_workers_per_project(workers) == most
