"""Resizing a compute: its limits and settings change while clients stay connected, and survive restarts and crashes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bough.engine.local.isolation.cgroups import Cgroups
from bough.engine.local.isolation.resource_limits import ResourceLimits, build_cpu_weight
from bough.engine.port import Readiness
from bough.engine.spec import build_compute_settings, build_size_settings
from bough.ids import EndpointId
from engine.test_cgroups import GIB, read_limits
from support.engine_home import Compute, EngineHome
from support.requirements import require, require_root

LARGEST = 2.0
SETTINGS = build_compute_settings(LARGEST, logical_replication=False)
SHOWN = ("effective_cache_size", "work_mem", "maintenance_work_mem", "shared_buffers", "max_connections")
SMALL = {
    "effective_cache_size": "768MB",
    "work_mem": "4MB",
    "maintenance_work_mem": "32MB",
    "shared_buffers": "128MB",
    "max_connections": "900",
}
LARGE = SMALL | {"effective_cache_size": "6GB", "work_mem": "8MB", "maintenance_work_mem": "128MB"}
BURN = "select sum(sqrt(n)) from generate_series(1, 3000000) n"


async def autoscaling_compute(home: EngineHome, **changes: Any) -> Compute:
    return await home.create_compute(**{"max_cu": LARGEST, "min_cu": 0.25, "settings": SETTINGS, **changes})


async def read_settings(connection: Any) -> dict[str, str]:
    return {name: await connection.fetchval(f"show {name}") for name in SHOWN}


async def wait_for_settings(connection: Any, wanted: dict[str, str]) -> None:
    """A reload reaches a session at its next statement, shortly after the server."""
    for _ in range(500):
        if (last := await read_settings(connection)) == wanted:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(last)


async def read_size(compute: Compute) -> float | None:
    reading = await compute.home.engine.read_load(compute.spec.endpoint_id)
    return reading.cu if reading else None


def read_weight(compute: Compute) -> str:
    found = read_limits(compute.pid)
    return found.get("cpu.weight") or found["cpu.shares"]


def is_weight(compute: Compute, cu: float) -> bool:
    return read_weight(compute) in {build_cpu_weight(version, cu)[1] for version in (1, 2)}


async def test_it_is_resized_while_a_client_is_in_a_transaction(home: EngineHome) -> None:
    compute = await autoscaling_compute(home)
    engine, endpoint, pid = home.engine, compute.spec.endpoint_id, compute.pid
    async with compute.connect() as client:
        await client.execute("create table kept (one int)")
        assert await read_settings(client) == SMALL
        transaction = client.transaction()
        await transaction.start()
        await client.execute("insert into kept values (1)")
        backend = await client.fetchval("select pg_backend_pid()")
        await engine.resize(endpoint, LARGEST)
        await wait_for_settings(client, LARGE)
        assert await read_size(compute) == LARGEST
        await engine.resize(endpoint, 0.25)
        await wait_for_settings(client, SMALL)
        await client.execute("insert into kept values (2)")
        await transaction.commit()
        assert await client.fetchval("select pg_backend_pid()") == backend
        assert await client.fetchval("select count(*) from kept") == 2
    assert compute.pid == pid
    assert await read_size(compute) == 0.25


async def test_its_control_groups_follow(home: EngineHome) -> None:
    require_root()
    require("cgroups", home.engine.capabilities().limits_summary.startswith("cgroup"), "there are no control groups")
    compute = await autoscaling_compute(home)
    small = read_limits(compute.pid)
    assert is_weight(compute, 0.25)
    await home.engine.resize(compute.spec.endpoint_id, 1)
    assert is_weight(compute, 1)
    middle = read_limits(compute.pid)
    await home.engine.resize(compute.spec.endpoint_id, LARGEST)
    assert is_weight(compute, LARGEST)
    large = read_limits(compute.pid)
    for hard in {"memory.max", "memory.limit_in_bytes"} & small.keys():
        assert {each[hard] for each in (small, middle, large)} == {str(8 * GIB)}
    for soft in {"memory.high", "memory.soft_limit_in_bytes"} & small.keys():
        assert (small[soft], middle[soft]) == (str(GIB), str(4 * GIB))
        assert large[soft] not in (small[soft], middle[soft])
    assert {each.get("pids.max") for each in (small, middle, large)} in ({"1100"}, {None})


async def test_who_needs_more_than_the_smallest_size_is_not_killed(home: EngineHome) -> None:
    """Until it is resized it may use the memory of its maximum size."""
    require_root()
    require("cgroups", "memory" in home.engine.capabilities().limits_summary, "there is no control group for memory")
    compute = await autoscaling_compute(home)
    pid = compute.pid
    async with compute.connect() as client:
        text = "select length(string_agg(repeat(md5(n::text), 64), '')) from generate_series(1, 450000) n"
        assert await client.fetchval(text) == 450_000 * 64 * 32
        assert await client.fetchval("select 1") == 1
    assert compute.pid == pid


async def test_nothing_undoes_the_size(home: EngineHome) -> None:
    compute = await autoscaling_compute(home)
    pid = compute.pid
    await home.engine.resize(compute.spec.endpoint_id, 1)
    assert await compute.start() is Readiness.READY
    assert await compute.start(settings={**SETTINGS, "geqo_effort": "7"}) is Readiness.READY
    async with compute.connect() as client:
        assert (await read_settings(client))["effective_cache_size"] == "3GB"
        assert await client.fetchval("show geqo_effort") == "7"
    assert (compute.pid, await read_size(compute)) == (pid, 1)
    async with EngineHome.open(home.settings) as later:  # a new control process
        compute.home = later
        assert await compute.start() is Readiness.READY
        assert (compute.pid, await read_size(compute)) == (pid, 1)
        compute.home = home


async def test_a_restart_keeps_the_size_and_a_sleep_does_not(home: EngineHome) -> None:
    compute = await autoscaling_compute(home)
    pid = compute.pid
    await home.engine.resize(compute.spec.endpoint_id, 1)
    await compute.start(settings={**SETTINGS, "max_prepared_transactions": "5"})
    assert compute.pid != pid
    assert (await read_size(compute), await compute.fetch_value("show effective_cache_size")) == (1, "3GB")
    assert await compute.fetch_value("show max_prepared_transactions") == "5"
    await compute.kill()
    await compute.start()
    assert await read_size(compute) == 1
    await compute.suspend()
    await compute.start()
    assert (await read_size(compute), await compute.fetch_value("show effective_cache_size")) == (0.25, "768MB")


async def test_limits_that_move_take_the_size_with_them(home: EngineHome) -> None:
    compute = await autoscaling_compute(home)
    pid = compute.pid
    await compute.start(min_cu=1)
    async with compute.connect() as client:
        assert (await read_settings(client))["effective_cache_size"] == "3GB"
    assert (compute.pid, await read_size(compute)) == (pid, 1)
    await compute.start(max_cu=0.5, min_cu=0.25, settings=build_compute_settings(0.5, logical_replication=False))
    assert await compute.fetch_value("show effective_cache_size") == "1536MB"
    assert (await read_size(compute), await compute.fetch_value("show max_connections")) == (0.5, "225")


async def test_what_a_tenant_has_set_stands_over_the_size(home: EngineHome) -> None:
    requested = {"work_mem": "19MB", "random_page_cost": "1.5"}
    compute = await autoscaling_compute(
        home, settings=build_compute_settings(LARGEST, logical_replication=False, requested=requested)
    )
    async with compute.connect() as client:
        assert await read_settings(client) == SMALL | {"work_mem": "19MB"}
        await home.engine.resize(compute.spec.endpoint_id, LARGEST)
        await wait_for_settings(client, LARGE | {"work_mem": "19MB"})
    await compute.suspend()
    await compute.start()
    assert await compute.fetch_value("show work_mem") == "19MB"
    assert await compute.fetch_value("show random_page_cost") == "1.5"


async def test_what_is_the_platforms_cannot_be_overruled() -> None:
    requested = {"shared_buffers": "99GB", "max_connections": "9", "wal_level": "minimal"}
    assert build_compute_settings(LARGEST, logical_replication=True, requested=requested) == build_compute_settings(
        LARGEST, logical_replication=True
    )


async def test_the_load_of_a_busy_compute_grows(home: EngineHome) -> None:
    compute = await autoscaling_compute(home)
    before = await home.engine.read_load(compute.spec.endpoint_id)
    async with compute.connect() as client:  # its processes count while it is connected
        await client.execute(BURN)
        after = await home.engine.read_load(compute.spec.endpoint_id)
    assert before is not None and after is not None
    assert after.cpu_seconds > before.cpu_seconds
    assert 0 < after.memory_bytes < GIB
    assert (await home.engine.observe()).cu_by_endpoint[compute.spec.endpoint_id] == 0.25


async def test_without_control_groups_its_settings_follow(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await autoscaling_compute(home)
    monkeypatch.setattr(home.engine._components.sizes, "_cgroups", Cgroups("x", (), "this machine has none"))
    async with compute.connect() as client:
        await client.execute(BURN)
        reading = await home.engine.read_load(compute.spec.endpoint_id)
        assert reading is not None and reading.cpu_seconds > 0
        assert 0 < reading.memory_bytes < GIB
        await home.engine.resize(compute.spec.endpoint_id, LARGEST)
        await wait_for_settings(client, LARGE)


async def test_one_that_does_not_run_is_left_alone(home: EngineHome) -> None:
    compute = await home.create_branch(max_cu=LARGEST, min_cu=0.25, settings=SETTINGS)
    unknown = EndpointId.new()
    for endpoint in (compute.spec.endpoint_id, unknown):
        await home.engine.resize(endpoint, 1)
        assert await home.engine.read_load(endpoint) is None
    await compute.start()
    assert await read_size(compute) == 0.25


async def test_a_run_of_an_earlier_version_is_as_large_as_it_may_be(home: EngineHome) -> None:
    """An earlier version started it without recording a size, and it keeps running without a restart."""
    compute = await autoscaling_compute(home)
    pid, runs = compute.pid, home.engine._components.runs
    run = runs.get(compute.spec.endpoint_id)
    assert run is not None
    runs.put(replace(run, cu=None, max_cu=None, settings_digest="of an earlier version"))
    (compute.volume_folder / "conf" / "size.conf").unlink()
    assert await read_size(compute) is None
    assert await compute.start() is Readiness.READY
    assert (compute.pid, await read_size(compute)) == (pid, LARGEST)
    async with compute.connect() as client:
        await wait_for_settings(client, LARGE)


async def test_a_fixed_size_is_what_it_was(home: EngineHome) -> None:
    compute = await home.create_compute()
    assert await read_size(compute) == 0.25
    expected = build_size_settings(0.25)["effective_cache_size"]
    assert await compute.fetch_value("show effective_cache_size") == expected
    assert ResourceLimits.for_max_size(0.25, connections=112).at_size(0.25) == ResourceLimits.for_max_size(
        0.25, connections=112
    )
