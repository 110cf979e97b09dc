"""Read replicas in a Home, and waiting for what has to come by itself."""

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

# A primary that soon forgets what its replicas have not read.
SMALL_SLOT_SETTINGS = {**build_compute_settings(0.25, logical_replication=False), "max_slot_wal_keep_size": "8MB"}
TIMEOUT = 60.0  # seconds; for a machine that does other things too


async def wait_until_equal(look: Callable[[], Awaitable[Any]], wanted: Any, patience: float = TIMEOUT) -> None:
    """Until a look shows what is wanted; the last look says what was there instead."""
    until = time.monotonic() + patience
    while (seen := await look()) != wanted:
        assert time.monotonic() < until, f"{wanted!r} did not come, but {seen!r}"
        await asyncio.sleep(0.02)


def plan_replica(primary: Compute) -> Compute:
    """A replica that was never started; its primary names it from now on, when it is asked for again."""
    followed = PrimarySpec(volume_id=primary.spec.volume_id, endpoint_id=primary.spec.endpoint_id)
    spec = replace(
        primary.spec,
        endpoint_id=EndpointId.new(),
        volume_id=VolumeId.new(),
        roles=tuple(replace(role, verifier=None) for role in primary.spec.roles),
        databases=(),
        primary=followed,
        replica_volumes=(),
    )
    replica = Compute(primary.home, spec)
    primary.spec = replace(primary.spec, replica_volumes=(*primary.spec.replica_volumes, spec.volume_id))
    primary.home.computes.insert(0, replica)
    return replica


async def start_replica(primary: Compute) -> Compute:
    """A replica that accepts connections."""
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


async def wait_for_numbers(replica: Compute, *wanted: int) -> None:
    await wait_until_equal(lambda: read_numbers(replica), list(wanted))


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
    """So much WAL, and checkpoints that leave only what is kept for somebody."""
    async with primary.connect() as client:
        await client.execute("create table if not exists ballast (bytes text)")
        await client.execute("alter table ballast alter bytes set storage external")
        for _ in range(megabytes):
            await client.execute("insert into ballast select repeat('x', 1048576)")
        await client.execute("drop table ballast")
    await checkpoint(primary)


async def checkpoint(primary: Compute) -> None:
    """A tenant may not ask for one before 15, so we do."""
    async with primary.connect("bough_admin", "postgres") as ours:
        for _ in range(2):
            await ours.execute("select pg_switch_wal()")
            await ours.execute("checkpoint")
