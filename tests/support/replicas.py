"""Read replicas in an EngineHome, and helpers that wait for their state."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from bough.engine.port import Readiness, ReplicaState
from bough.engine.spec import PrimarySpec, build_compute_settings
from bough.ids import EndpointId, VolumeId
from bough.postgres.replication import slot_name
from support.engine_home import Compute

# A primary that retains little WAL for its replicas.
SMALL_SLOT_SETTINGS = {**build_compute_settings(0.25, logical_replication=False), "max_slot_wal_keep_size": "8MB"}
TIMEOUT = 60.0  # seconds; the machine may be busy


async def wait_until_equal(read: Callable[[], Awaitable[Any]], expected: Any, timeout: float = TIMEOUT) -> None:
    """Poll until the value is the expected one; on timeout the last value is reported."""
    deadline = time.monotonic() + timeout
    while (value := await read()) != expected:
        assert time.monotonic() < deadline, f"expected {expected!r}, got {value!r}"
        await asyncio.sleep(0.02)


def plan_replica(primary: Compute) -> Compute:
    """Return a replica that was never started; the primary's spec names it from now on."""
    primary_spec = PrimarySpec(volume_id=primary.spec.volume_id, endpoint_id=primary.spec.endpoint_id)
    spec = replace(
        primary.spec,
        endpoint_id=EndpointId.new(),
        volume_id=VolumeId.new(),
        roles=tuple(replace(role, verifier=None) for role in primary.spec.roles),
        databases=(),
        primary=primary_spec,
        replica_volumes=(),
    )
    replica = Compute(primary.home, spec)
    primary.spec = replace(primary.spec, replica_volumes=(*primary.spec.replica_volumes, spec.volume_id))
    primary.home.computes.insert(0, replica)
    return replica


async def start_replica(primary: Compute) -> Compute:
    """Return a replica that accepts connections."""
    replica = plan_replica(primary)
    assert await replica.start() is Readiness.READY
    return replica


async def insert_numbers(primary: Compute, *numbers: int) -> None:
    async with primary.connect() as client:
        await client.execute("create table if not exists numbers (n int)")
        await client.executemany("insert into numbers values ($1)", [(number,) for number in numbers])


async def read_numbers(compute: Compute) -> list[int]:
    async with compute.connect() as client:
        if await client.fetchval("select to_regclass('numbers')") is None:
            return []
        return [row["n"] for row in await client.fetch("select n from numbers order by n")]


async def wait_for_numbers(replica: Compute, *expected: int) -> None:
    await wait_until_equal(lambda: read_numbers(replica), list(expected))


async def get_replication_state(replica: Compute) -> ReplicaState | None:
    return await replica.home.engine.read_replica_state(replica.spec.endpoint_id)


async def wait_until_streaming(replica: Compute) -> None:
    await wait_until_equal(lambda: _is_streaming(replica), True)


async def _is_streaming(replica: Compute) -> bool:
    return await get_replication_state(
        replica
    ) is ReplicaState.FOLLOWING and "streaming" in await read_wal_receiver_status(replica)


async def read_wal_receiver_status(replica: Compute) -> list[str]:
    async with replica.connect() as client:
        return [row["status"] for row in await client.fetch("select status from pg_stat_wal_receiver")]


async def list_slots(primary: Compute) -> set[str]:
    async with primary.connect() as client:
        return {row["slot_name"] for row in await client.fetch("select slot_name from pg_replication_slots")}


def slot_name_of(replica: Compute) -> str:
    return slot_name(replica.spec.volume_id)


async def write_wal(primary: Compute, megabytes: int) -> None:
    """Write this much WAL, then remove all WAL that no slot retains, by checkpoints."""
    async with primary.connect() as client:
        await client.execute("create table if not exists ballast (bytes text)")
        await client.execute("alter table ballast alter bytes set storage external")
        for _ in range(megabytes):
            await client.execute("insert into ballast select repeat('x', 1048576)")
        await client.execute("drop table ballast")
    await checkpoint(primary)


async def checkpoint(primary: Compute) -> None:
    """Run as the administrator: before version 15, tenants may not run CHECKPOINT."""
    async with primary.connect("bough_admin", "postgres") as connection:
        for _ in range(2):
            await connection.execute("select pg_switch_wal()")
            await connection.execute("checkpoint")
