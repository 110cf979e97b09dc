"""`bough down`: computes stop, endpoints sleep, and those that shall not sleep come back by themselves."""

from typing import Any

import pytest

from bough.control.resting import rest
from bough.domain.endpoint import EndpointState
from bough.engine.port import EngineError
from world import Platform


async def state(platform: Platform, made: dict[str, Any]) -> EndpointState:
    return (await platform.endpoint(made)).state


async def test_they_sleep_and_wake_when_somebody_connects(platform: Platform) -> None:
    made = await platform.ready_project()
    await rest(platform.store, platform.engine)
    asleep = await platform.endpoint(made)
    assert (asleep.state, asleep.pending_state) == (EndpointState.IDLE, None)
    assert asleep.suspended_at is not None
    assert not (await platform.engine.observe()).running
    await platform.run_tasks()
    await platform.settle()
    assert not (await platform.engine.observe()).running, "nobody asked for it"
    async with platform.working():
        await platform.inner.plane.wakes.wake(asleep.id)
    assert await platform.query(made, "select 1") == 1


async def test_one_that_never_sleeps_is_started_at_the_next_up(platform: Platform) -> None:
    made = await platform.ready_project(default_endpoint_settings={"suspend_timeout_seconds": -1})
    await rest(platform.store, platform.engine)
    assert not (await platform.engine.observe()).running
    assert await state(platform, made) is EndpointState.ACTIVE
    await platform.run_tasks()
    await platform.settle()
    assert await platform.query(made, "select 1") == 1


async def test_one_that_could_not_be_read_is_started_at_the_next_up(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have changed a password in it, and could not wake it with that."""
    made = await platform.ready_project()

    async def refuse(*_: Any) -> None:
        raise EngineError("The compute did not take our statements.")

    with monkeypatch.context() as during:
        during.setattr(platform.engine, "contents", refuse)
        await rest(platform.store, platform.engine)
    assert not (await platform.engine.observe()).running
    assert await state(platform, made) is EndpointState.ACTIVE


async def test_work_that_is_under_way_is_resumed_at_the_next_up(platform: Platform) -> None:
    made = await platform.create_project()
    await rest(platform.store, platform.engine)
    await platform.settle()
    assert await state(platform, made) is EndpointState.ACTIVE
    assert await platform.query(made, "select 1") == 1
