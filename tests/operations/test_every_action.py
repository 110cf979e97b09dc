"""Three tests for every action: steps are repeatable, failures leave nothing behind, lost records are made up for."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bough.domain.operation import Operation, OperationStatus
from bough.engine.port import EngineError
from bough.operations.action import Action, ActionType
from bough.operations.actions import ALL_ACTIONS
from bough.operations.context import ActionContext
from bough.operations.events import Events
from bough.operations.outcome import Outcome
from bough.operations.registry import ActionRegistry
from bough.operations.runner import OperationRunner
from bough.store.sqlite import SqliteStore
from operations.scenarios import SCENARIOS, Scenario
from support.platform import Platform

Setting = Callable[[Platform], Awaitable[Scenario]]
# Failing before a step equals failing after the previous one, so the everyday tier does it for the first step only.
FAILURES = [
    pytest.param(action, setting, step, when, marks=[pytest.mark.long] if number and when == "before" else [])
    for action, setting in SCENARIOS
    for number, step in enumerate(action.steps)
    for when in ("before", "after")
]


def _named(part: Any) -> str:
    return str(getattr(part, "__name__", part)).strip("_")


def _variant(action: ActionType, run: Any) -> ActionType:
    return type(f"{action.__name__}Variant", (action,), {"run": run})


def twice(action: ActionType) -> ActionType:
    """Every step runs twice, as after a crash between a step and its record."""

    async def run(self: Action[Any], name: str, ctx: ActionContext) -> Outcome:
        await action.run(self, name, ctx)
        return await action.run(self, name, ctx)

    return _variant(action, run)


def failing_at(action: ActionType, step: str, *, when: str, times: int) -> ActionType:
    """The step fails before or after its work is done."""
    remaining = times

    async def run(self: Action[Any], name: str, ctx: ActionContext) -> Outcome:
        nonlocal remaining
        if name != step or remaining == 0:
            return await action.run(self, name, ctx)
        remaining -= 1
        if when == "after":
            await action.run(self, name, ctx)
        raise EngineError("the test made this fail", transient=action.is_forward_only)

    return _variant(action, run)


async def enqueue(platform: Platform, scenario: Scenario) -> Operation:
    async with platform.services.queue.locked_transaction(scenario.operation.lock) as rows:
        return (await platform.services.queue.enqueue(rows, [scenario.operation], "test"))[0]


async def reload(platform: Platform, operation: Operation) -> Operation:
    async with platform.store.read() as rows:
        found = await rows.operations.get(operation.id)
    assert found is not None
    return found


async def run(platform: Platform, action: ActionType, operation: Operation) -> Operation:
    runner = OperationRunner(platform.store, platform.engine, Events(), ActionRegistry([action]), workers=1)
    while not (found := await reload(platform, operation)).has_ended:
        await runner.run_until_idle()
        await asyncio.sleep(0.02)  # a failed step is due again after a pause
    return found


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


async def take_picture(platform: Platform, scenario: Scenario) -> dict[str, Any]:
    """What is on disk, which computes run, and the rows, without times."""
    observed = await platform.engine.observe()
    async with platform.store.read() as rows:
        branches = await rows.branches.list_with_deleted(scenario.operation.project_id)
        endpoints = await rows.endpoints.list_in_project(scenario.operation.project_id)
    return {
        "volumes": observed.volumes,
        "running": observed.running_endpoints,
        "folders": _names(platform.settings.home / "volumes"),
        "uids": _names(platform.settings.home / "uids"),
        "branches": [(branch.id, branch.state, branch.volume_id, branch.parent_id) for branch in branches],
        "endpoints": [(endpoint.id, endpoint.state, endpoint.pending_state) for endpoint in endpoints],
    }


def test_every_action_has_a_scene() -> None:
    assert {action for action, _ in SCENARIOS} == set(ALL_ACTIONS)


@pytest.mark.parametrize(("action", "setting"), SCENARIOS, ids=_named)
async def test_each_step_may_be_repeated(platform: Platform, action: ActionType, setting: Setting) -> None:
    scenario = await setting(platform)
    ended = await run(platform, twice(action), await enqueue(platform, scenario))
    assert ended.status is OperationStatus.FINISHED
    assert ended.failures == 0
    assert bool((await platform.engine.observe()).running_endpoints) == scenario.expects_compute


@pytest.mark.parametrize(("action", "setting", "step", "when"), FAILURES, ids=_named)
async def test_failing_at_any_step_leaves_nothing_behind(
    platform: Platform, action: ActionType, setting: Setting, step: str, when: str
) -> None:
    scenario = await setting(platform)
    before = await take_picture(platform, scenario)
    operation = await enqueue(platform, scenario)
    failing = failing_at(action, step, when=when, times=2 if action.is_forward_only else 1)
    ended = await run(platform, failing, operation)
    if action.is_forward_only:  # never undone: a later attempt finishes the work
        assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 2)
        assert not (await platform.engine.observe()).running_endpoints
    else:
        assert (ended.status, ended.error) == (OperationStatus.FAILED, "the test made this fail")
        assert await take_picture(platform, scenario) == before


@pytest.mark.parametrize(("action", "setting"), SCENARIOS, ids=_named)
async def test_an_action_whose_records_a_power_cut_took_comes_to_the_same_end(
    platform: Platform, action: ActionType, setting: Setting
) -> None:
    """Only the enqueued operation is durable: later rows may be lost while the work of the engine remains."""
    assert isinstance(platform.store, SqliteStore)
    scenario = await setting(platform)
    operation = await enqueue(platform, scenario)
    with closing(sqlite3.connect(":memory:")) as before, closing(sqlite3.connect(platform.store.path)) as rows:
        rows.backup(before)
        await run(platform, action, operation)
        after = await take_picture(platform, scenario)
        await platform.stop_computes()
        before.backup(rows)
    assert await reload(platform, operation) == operation
    ended = await run(platform, action, operation)
    assert (ended.status, ended.failures) == (OperationStatus.FINISHED, 0)
    assert await take_picture(platform, scenario) == after
