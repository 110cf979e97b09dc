"""Engines on every volume driver, and helpers for their contract tests."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from bough.config import Settings
from bough.engine.port import Engine, Origin, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import EndpointId, VolumeId
from support.engine_home import (
    DATABASE,
    DRIVER_PARAMS,
    ROLE,
    EngineHome,
    home_on_driver,
    make_branch_spec,
    make_compute_spec,
    open_connection,
)


@pytest.fixture(scope="module", params=DRIVER_PARAMS)
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on_driver(request.param) as opened:
        yield opened


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    async with EngineHome.open(settings) as home:
        yield home.engine
        for endpoint in (await home.engine.observe()).running_endpoints:
            await home.engine.ensure_suspended(endpoint)


@pytest.fixture
def spec(engine: Engine) -> ComputeSpec:
    return make_compute_spec(engine.capabilities().installs[17])


async def start_compute(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_branch(make_branch_spec(spec))
    assert await engine.ensure_running(spec) is Readiness.READY


def make_child_spec(spec: ComputeSpec) -> ComputeSpec:
    return replace(spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new())


async def create_child(engine: Engine, parent: ComputeSpec) -> ComputeSpec:
    child, _ = await create_child_with_origin(engine, parent)
    return child


async def create_child_with_origin(engine: Engine, parent: ComputeSpec) -> tuple[ComputeSpec, Origin]:
    """Create a branch. Return it with its origin."""
    child = make_child_spec(parent)
    return child, await engine.ensure_branch(replace(make_branch_spec(child), source_volume_id=parent.volume_id))


async def connect(
    engine: Engine, spec: ComputeSpec, role: str = ROLE, database: str = DATABASE
) -> AbstractAsyncContextManager[Any]:
    address = await engine.find_address(spec.endpoint_id)
    assert address is not None
    return open_connection(address, role, database)
