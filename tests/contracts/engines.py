"""Engines to test on every driver of volumes, and what tests ask of them again and again."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from bough.config import Settings
from bough.engine.port import Engine, Origin, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import EndpointId, VolumeId
from engine.homes import DATABASE, DRIVERS_IN_TIERS, ROLE, Home, branch_of, connected, home_on, spec_of


@pytest.fixture(scope="module", params=DRIVERS_IN_TIERS)
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    with home_on(request.param) as made:
        yield made


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    async with Home.opened(settings) as home:
        yield home.engine
        for endpoint in (await home.engine.observe()).running:
            await home.engine.ensure_suspended(endpoint)


@pytest.fixture
def spec(engine: Engine) -> ComputeSpec:
    return spec_of(engine.capabilities().installs[17])


async def ensure_ready(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_branch(branch_of(spec))
    assert await engine.ensure_running(spec) is Readiness.READY


def child_of(spec: ComputeSpec) -> ComputeSpec:
    return replace(spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new())


async def ensure_child(engine: Engine, parent: ComputeSpec) -> ComputeSpec:
    child, _ = await begin_child(engine, parent)
    return child


async def begin_child(engine: Engine, parent: ComputeSpec) -> tuple[ComputeSpec, Origin]:
    """A new branch, and the moment of its parent's life that it begins with."""
    child = child_of(parent)
    return child, await engine.ensure_branch(replace(branch_of(child), parent=parent.volume_id))


async def session(
    engine: Engine, spec: ComputeSpec, role: str = ROLE, database: str = DATABASE
) -> AbstractAsyncContextManager[Any]:
    address = await engine.address(spec.endpoint_id)
    assert address is not None
    return connected(address, role, database)
