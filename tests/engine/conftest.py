"""One home for all engine tests. Its template is created once; each test creates its own computes."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bough.config import Settings, default_cache
from bough.engine.local.installs import download
from bough.engine.spec import ComputeSpec
from support.engine_home import Compute, EngineHome, make_compute_spec, temporary_home
from support.replicas import insert_numbers


@pytest.fixture(scope="session")
def settings() -> Iterator[Settings]:
    download.fetch_install(17, default_cache())
    with temporary_home() as made:
        yield made


@pytest.fixture
async def home(settings: Settings) -> AsyncIterator[EngineHome]:
    async with EngineHome.open(settings) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared_compute_spec(settings: Settings) -> ComputeSpec:
    return make_compute_spec(download.fetch_install(17, settings.cache).pin)


@pytest.fixture
async def tenant_compute(home: EngineHome, shared_compute_spec: ComputeSpec) -> Compute:
    """A compute that all tests of rejected access share."""
    return await home.ensure_compute(shared_compute_spec)


@pytest.fixture
def traversable_folder() -> Iterator[Path]:
    """An empty folder that every user may traverse. The folders of pytest are not accessible to computes."""
    with temporary_home() as made:
        made.home.mkdir(mode=0o711)
        yield made.home


@pytest.fixture
async def primary(home: EngineHome) -> Compute:
    """A compute with data to replicate."""
    compute = await home.create_compute()
    await insert_numbers(compute, 1)
    return compute
