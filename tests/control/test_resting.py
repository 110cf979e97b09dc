"""`bough down`: computes stop, endpoints sleep, and those that shall not sleep come back by themselves."""

from typing import Any

import pytest

from bough.control.platform.shutdown import stop_all_computes
from bough.domain.endpoint import EndpointState
from bough.engine.port import EngineError
from support.platform import Platform


async def state(platform: Platform, made: dict[str, Any]) -> EndpointState:
    return (await platform.get_endpoint(made)).state


async def test_they_sleep_and_wake_when_somebody_connects(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await stop_all_computes(platform.store, platform.engine)
    asleep = await platform.get_endpoint(made)
    assert (asleep.state, asleep.pending_state) == (EndpointState.IDLE, None)
    assert asleep.suspended_at is not None
    assert not (await platform.engine.observe()).running_endpoints
    await platform.run_tasks()
    await platform.run_operations()
    assert not (await platform.engine.observe()).running_endpoints, "nobody asked for it"
    async with platform.background_runner():
        await platform.inner.gateway_api.wakes.wake(asleep.id)
    assert await platform.query(made, "select 1") == 1


async def test_one_that_never_sleeps_is_started_at_the_next_up(platform: Platform) -> None:
    made = await platform.create_ready_project(default_endpoint_settings={"suspend_timeout_seconds": -1})
    await stop_all_computes(platform.store, platform.engine)
    assert not (await platform.engine.observe()).running_endpoints
    assert await state(platform, made) is EndpointState.ACTIVE
    await platform.run_tasks()
    await platform.run_operations()
    assert await platform.query(made, "select 1") == 1


async def test_one_that_could_not_be_read_is_started_at_the_next_up(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have changed a password in it, and could not wake it with that."""
    made = await platform.create_ready_project()

    async def refuse(*_: Any) -> None:
        raise EngineError("The compute did not take our statements.")

    with monkeypatch.context() as during:
        during.setattr(platform.engine, "read_compute_contents", refuse)
        await stop_all_computes(platform.store, platform.engine)
    assert not (await platform.engine.observe()).running_endpoints
    assert await state(platform, made) is EndpointState.ACTIVE


async def test_work_that_is_under_way_is_resumed_at_the_next_up(platform: Platform) -> None:
    made = await platform.create_project()
    await stop_all_computes(platform.store, platform.engine)
    await platform.run_operations()
    assert await state(platform, made) is EndpointState.ACTIVE
    assert await platform.query(made, "select 1") == 1
