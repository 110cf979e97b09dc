"""Three tests that hold for every action there is or will be: repetition, failure at each step, lost records."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bough.domain.operation import Operation, OperationStatus
from bough.engine.port import EngineError
from bough.operations.action import Action
from bough.operations.actions import ALL_ACTIONS
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.outcome import Outcome
from bough.operations.runner import OperationRunner
from bough.store.sqlite import SqliteStore
from operations.scenarios import SCENARIOS, Scenario
from support.platform import Platform

Setting = Callable[[Platform], Awaitable[Scenario]]
# Before a step the world is as after the one before it, so every day only the first is looked at from there too.
FAILURES = [
    pytest.param(action, setting, step, when, marks=[pytest.mark.long] if number and when == "before" else [])
    for action, setting in SCENARIOS
    for number, step in enumerate(action.steps)
    for when in ("before", "after")
]


def _named(part: Any) -> str:
    return str(getattr(part, "__name__", part)).strip("_")


def _variant(action: type[Action], run: Any) -> type[Action]:
    return type(f"{action.__name__}Variant", (action,), {"run": run})


def twice(action: type[Action]) -> type[Action]:
    """Every step runs two times, as after a crash between a step and its record."""

    async def run(self: Action, name: str, ctx: ActionContext) -> Outcome:
        await action.run(self, name, ctx)
        return await action.run(self, name, ctx)

    return _variant(action, run)


def failing_at(action: type[Action], step: str, *, when: str, times: int) -> type[Action]:
    """The step fails before or after it did its work."""
    left = times

    async def run(self: Action, name: str, ctx: ActionContext) -> Outcome:
        nonlocal left
        if name != step or left == 0:
            return await action.run(self, name, ctx)
        left -= 1
        if when == "after":
            await action.run(self, name, ctx)
        raise EngineError("the test made this fail", transient=action.is_forward_only)

    return _variant(action, run)


async def enqueue(platform: Platform, scene: Scenario) -> Operation:
    async with platform.services.queue.locked_transaction(scene.operation.lock) as rows:
        return (await platform.services.queue.enqueue(rows, [scene.operation], "test"))[0]


async def now(platform: Platform, operation: Operation) -> Operation:
    async with platform.store.read() as rows:
        found = await rows.operations.get(operation.id)
    assert found is not None
    return found


async def run(platform: Platform, action: type[Action], operation: Operation) -> Operation:
    runner = OperationRunner(platform.store, platform.engine, Events(), [action], workers=1)
    while not (found := await now(platform, operation)).has_ended:
        await runner.run_until_idle()
        await asyncio.sleep(0.02)  # what failed is due again after a while
    return found


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


async def picture(platform: Platform, scene: Scenario) -> dict[str, Any]:
    """What is on the machine and in the rows, apart from times."""
    seen = await platform.engine.observe()
    async with platform.store.read() as rows:
        branches = await rows.branches.list_with_deleted(scene.operation.project_id)
        endpoints = await rows.endpoints.list_in_project(scene.operation.project_id)
    return {
        "volumes": seen.volumes,
        "running": seen.running_endpoints,
        "folders": _names(platform.settings.home / "volumes"),
        "uids": _names(platform.settings.home / "uids"),
        "branches": [(branch.id, branch.state, branch.volume_id, branch.parent_id) for branch in branches],
        "endpoints": [(endpoint.id, endpoint.state, endpoint.pending_state) for endpoint in endpoints],
    }


def test_every_action_has_a_scene() -> None:
    assert {action for action, _ in SCENARIOS} == set(ALL_ACTIONS)


@pytest.mark.parametrize(("action", "setting"), SCENARIOS, ids=_named)
async def test_each_step_may_be_repeated(platform: Platform, action: type[Action], setting: Setting) -> None:
    scene = await setting(platform)
    ended = await run(platform, twice(action), await enqueue(platform, scene))
    assert ended.status is OperationStatus.FINISHED
    assert ended.failures == 0
    assert bool((await platform.engine.observe()).running_endpoints) == scene.expects_compute


@pytest.mark.parametrize(("action", "setting", "step", "when"), FAILURES, ids=_named)
async def test_failing_at_any_step_leaves_nothing_behind(
    platform: Platform, action: type[Action], setting: Setting, step: str, when: str
) -> None:
    scene = await setting(platform)
    before = await picture(platform, scene)
    operation = await enqueue(platform, scene)
    failing = failing_at(action, step, when=when, times=2 if action.is_forward_only else 1)
    ended = await run(platform, failing, operation)
    if action.is_forward_only:  # it only goes forward: a later run finishes the work
        assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 2)
        assert not (await platform.engine.observe()).running_endpoints
    else:
        assert (ended.status, ended.error) == (OperationStatus.FAILED, "the test made this fail")
        assert await picture(platform, scene) == before


@pytest.mark.parametrize(("action", "setting"), SCENARIOS, ids=_named)
async def test_an_action_whose_records_a_power_cut_took_comes_to_the_same_end(
    platform: Platform, action: type[Action], setting: Setting
) -> None:
    """Only the wish is sure to be on disk: rows written after it may be gone, while the engine's work is there."""
    assert isinstance(platform.store, SqliteStore)
    scene = await setting(platform)
    operation = await enqueue(platform, scene)
    with closing(sqlite3.connect(":memory:")) as before, closing(sqlite3.connect(platform.store.path)) as rows:
        rows.backup(before)
        await run(platform, action, operation)
        after = await picture(platform, scene)
        await platform.stop_computes()
        before.backup(rows)
    assert await now(platform, operation) == operation
    ended = await run(platform, action, operation)
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 0)
    assert await picture(platform, scene) == after
