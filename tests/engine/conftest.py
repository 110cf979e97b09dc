"""One home for all engine tests: its template is made once, its computes are each test's own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bough.config import Settings, default_cache
from bough.engine.local.installs import fetch
from bough.engine.spec import ComputeSpec
from engine.followers import write
from engine.homes import Compute, Home, home_folder, spec_of


@pytest.fixture(scope="session")
def settings() -> Iterator[Settings]:
    fetch.fetch(17, default_cache())
    with home_folder() as made:
        yield made


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[Home]:
    async with Home.opened(settings) as opened:
        yield opened


@pytest.fixture(scope="session")
def standing_spec(settings: Settings) -> ComputeSpec:
    return spec_of(fetch.fetch(17, settings.cache).id)


@pytest.fixture
async def tenant(home: Home, standing_spec: ComputeSpec) -> Compute:
    """A compute for tests that only try what is refused: one for all of them."""
    return await home.standing(standing_spec)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that every user may pass; pytest's own are closed to computes."""
    with home_folder() as made:
        made.home.mkdir(mode=0o711)
        yield made.home


@pytest.fixture
async def primary(home: Home) -> Compute:
    """A compute with something to follow in it."""
    compute = await home.compute()
    await write(compute, 1)
    return compute
