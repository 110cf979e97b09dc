"""What every engine promises, told with its port alone. A new engine joins by a line in ENGINES."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from bough.config import Settings
from bough.engine.port import Engine, EngineError, Readiness
from bough.engine.spec import ComputeSpec, DatabaseSpec, RoleSpec, compute_settings
from bough.ids import EndpointId, ProjectId, VolumeId
from engine.homes import DATABASE, ROLE, VERIFIER, Home, branch_of, connected, home_folder, spec_of


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    with home_folder() as made:
        yield made


@pytest.fixture(params=["local"])
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


async def session(
    engine: Engine, spec: ComputeSpec, role: str = ROLE, database: str = DATABASE
) -> AbstractAsyncContextManager[Any]:
    address = await engine.address(spec.endpoint_id)
    assert address is not None
    return connected(address, role, database)


async def test_it_tells_what_it_can_do(engine: Engine) -> None:
    able = engine.capabilities()
    assert able.installs[17]
    assert able.driver
    assert able == engine.capabilities()


async def test_the_life_of_a_branch_with_every_verb_twice(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_branch(branch_of(spec))
    await engine.ensure_branch(branch_of(spec))
    assert await engine.ensure_running(spec) is Readiness.READY
    assert await engine.ensure_running(spec) is Readiness.READY
    async with await session(engine, spec) as db:
        assert (await db.fetchval("show server_version")).startswith("17.")
        await db.execute("create table kept (word text); insert into kept values ('here')")

    await engine.ensure_suspended(spec.endpoint_id)
    await engine.ensure_suspended(spec.endpoint_id)
    assert await engine.address(spec.endpoint_id) is None

    assert await engine.ensure_running(spec) is Readiness.READY
    async with await session(engine, spec) as db:
        assert await db.fetchval("select word from kept") == "here"

    await engine.ensure_suspended(spec.endpoint_id)
    await engine.ensure_absent(spec.project_id, spec.volume_id)
    await engine.ensure_absent(spec.project_id, spec.volume_id)
    assert spec.volume_id not in (await engine.observe()).volumes


async def test_it_observes_what_is_there(engine: Engine, spec: ComputeSpec) -> None:
    await engine.ensure_branch(branch_of(spec))
    seen = await engine.observe()
    assert spec.volume_id in seen.volumes
    assert spec.endpoint_id not in seen.running

    await engine.ensure_running(spec)
    assert spec.endpoint_id in (await engine.observe()).running

    await engine.ensure_suspended(spec.endpoint_id)
    assert spec.endpoint_id not in (await engine.observe()).running


async def test_usage_is_told_only_while_it_runs(engine: Engine, spec: ComputeSpec) -> None:
    assert await engine.usage(spec.endpoint_id) is None
    await ensure_ready(engine, spec)
    before = await engine.usage(spec.endpoint_id)
    async with await session(engine, spec) as db:
        await db.execute("create table large as select repeat('x', 1000) from generate_series(1, 10000)")
    after = await engine.usage(spec.endpoint_id)
    assert before is not None
    assert after is not None
    assert after.logical_bytes > before.logical_bytes + 5_000_000


async def test_two_branches_do_not_see_each_other(engine: Engine, spec: ComputeSpec) -> None:
    other = replace(spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new())
    await ensure_ready(engine, spec)
    await ensure_ready(engine, other)
    async with await session(engine, spec) as db:
        await db.execute("create table mine ()")
    async with await session(engine, other) as db:
        assert await db.fetchval("select to_regclass('mine')") is None


async def test_new_roles_and_databases_appear_when_asked_again(engine: Engine, spec: ComputeSpec) -> None:
    await ensure_ready(engine, spec)
    more = replace(
        spec,
        roles=(*spec.roles, RoleSpec(name="writer", verifier=VERIFIER)),
        databases=(*spec.databases, DatabaseSpec(name="diary", owner="writer")),
    )
    assert await engine.ensure_running(more) is Readiness.READY
    async with await session(engine, spec, "writer", "diary") as db:
        assert await db.fetchval("select current_user || '@' || current_database()") == "writer@diary"


async def test_changed_settings_are_in_force_when_it_returns(engine: Engine, spec: ComputeSpec) -> None:
    await ensure_ready(engine, spec)
    larger = replace(spec, settings=compute_settings(1, logical_replication=True))
    assert await engine.ensure_running(larger) is Readiness.READY
    async with await session(engine, spec) as db:
        assert await db.fetchval("show wal_level") == "logical"
        assert await db.fetchval("show shared_buffers") == "64MB"


async def test_a_volume_in_use_is_not_removed(engine: Engine, spec: ComputeSpec) -> None:
    await ensure_ready(engine, spec)
    with pytest.raises(EngineError, match="still runs"):
        await engine.ensure_absent(spec.project_id, spec.volume_id)
    async with await session(engine, spec) as db:
        assert await db.fetchval("select 1") == 1


async def test_what_was_never_there_can_be_suspended_and_removed(engine: Engine) -> None:
    await engine.ensure_suspended(EndpointId.new())
    await engine.ensure_absent(ProjectId.new(), VolumeId.new())
    assert await engine.address(EndpointId.new()) is None


async def test_running_without_a_volume_is_refused(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="does not exist") as refused:
        await engine.ensure_running(spec)
    assert not refused.value.transient


async def test_an_unknown_install_is_refused(engine: Engine, spec: ComputeSpec) -> None:
    with pytest.raises(EngineError, match="embedded-99") as refused:
        await engine.ensure_branch(branch_of(replace(spec, install="embedded-99.0.0")))
    assert not refused.value.transient
