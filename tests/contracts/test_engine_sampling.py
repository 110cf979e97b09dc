"""Sampling: the part of the engine contract that SamplingEngine declares, on real Postgres."""

import asyncio
import os
import signal

from bough.domain.metrics.fields import POSTGRES_COUNTERS
from bough.engine.port import ComputeStatistics, Engine, EngineError
from bough.engine.spec import ComputeSpec
from contracts.engines import connect, start_compute

COUNT_PLATFORM_SESSIONS = """
    select count(*) from pg_stat_activity where application_name = 'bough' and usename = 'bough_admin'
"""
BURN = "select count(*) from generate_series(1, 3000000)"
RECOVERY_SECONDS = 30.0


async def read(engine: Engine, spec: ComputeSpec) -> ComputeStatistics:
    statistics = await engine.read_statistics(spec.endpoint_id)
    assert statistics is not None
    return statistics


async def count_sessions(engine: Engine, spec: ComputeSpec) -> int:
    async with await connect(engine, spec) as db:
        count: int = await db.fetchval(COUNT_PLATFORM_SESSIONS)
        return count


async def test_statistics_count_what_clients_did(engine: Engine, spec: ComputeSpec) -> None:
    assert await engine.read_statistics(spec.endpoint_id) is None
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table things (number int)")
    before = await read(engine, spec)  # a session reports its last transactions when it ends
    async with await connect(engine, spec) as db:
        await db.execute("insert into things select generate_series(1, 1101)")
        await db.execute("update things set number = -number where number <= 50")
        await db.execute("delete from things where number < 0")
        await db.execute("begin; insert into things values (0); rollback")
    after = await read(engine, spec)
    assert after.counts.keys() == set(POSTGRES_COUNTERS)
    grown = {name: after.counts[name] - before.counts[name] for name in POSTGRES_COUNTERS}
    assert (grown["rows_inserted"], grown["rows_updated"], grown["rows_deleted"]) == (1102, 50, 50)
    assert grown["transactions_rolled_back"] == 1
    assert 4 <= grown["transactions_committed"] <= 10
    assert grown["rows_returned"] > 1000
    assert grown["blocks_hit"] > 0
    assert before.wal_position is not None
    assert after.wal_position is not None
    assert after.wal_position > before.wal_position + 50_000
    assert after.volume_id == spec.volume_id
    assert after.reset_at == before.reset_at is not None
    assert after.replayed_position is None


async def test_reading_counts_nothing_and_does_not_make_a_compute_busy(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    before = await read(engine, spec)
    for _ in range(5):
        after = await read(engine, spec)
    assert after.counts == before.counts
    assert not await engine.is_busy(spec.endpoint_id)


async def test_a_session_stays_open_until_it_is_not_wanted(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    for _ in range(3):
        await read(engine, spec)
    assert await count_sessions(engine, spec) == 1
    await engine.retain_sessions([spec.endpoint_id])
    assert await count_sessions(engine, spec) == 1
    await engine.retain_sessions([])
    assert await count_sessions(engine, spec) == 0
    await read(engine, spec)
    await engine.ensure_suspended(spec.endpoint_id)
    assert await engine.read_statistics(spec.endpoint_id) is None


async def test_counts_go_on_after_a_restart_and_begin_again_after_a_crash(engine: Engine, spec: ComputeSpec) -> None:
    await start_compute(engine, spec)
    async with await connect(engine, spec) as db:
        await db.execute("create table things as select generate_series(1, 1000) as number")
        await db.execute("insert into things select generate_series(1, 1000)")
    before = await read(engine, spec)
    await engine.ensure_suspended(spec.endpoint_id)
    await engine.ensure_running(spec)
    restarted = await read(engine, spec)
    assert restarted.reset_at == before.reset_at
    assert restarted.counts["rows_inserted"] == before.counts["rows_inserted"]

    async with await connect(engine, spec) as db:
        os.kill(await db.fetchval("select pg_backend_pid()"), signal.SIGKILL)
    crashed = await read_after_crash(engine, spec, before)
    assert crashed.counts["rows_inserted"] < before.counts["rows_inserted"]


async def read_after_crash(engine: Engine, spec: ComputeSpec, before: ComputeStatistics) -> ComputeStatistics:
    """Read when Postgres has recovered, in a new session: the old one ended with the crash."""
    async with asyncio.timeout(RECOVERY_SECONDS):
        while True:
            try:
                statistics = await read(engine, spec)
                if statistics.reset_at != before.reset_at:
                    return statistics
            except EngineError:
                pass
            await asyncio.sleep(0.02)


async def test_processes_are_sampled_without_a_session(engine: Engine, spec: ComputeSpec) -> None:
    assert spec.endpoint_id not in await engine.sample_processes()
    await start_compute(engine, spec)
    before = (await engine.sample_processes())[spec.endpoint_id]
    assert before.memory_bytes > 1_000_000
    async with await connect(engine, spec) as db:
        await db.fetchval(BURN)
        after = (await engine.sample_processes())[spec.endpoint_id]
    assert after.run == before.run
    assert after.cpu_seconds > before.cpu_seconds
    await engine.ensure_suspended(spec.endpoint_id)
    await engine.ensure_running(spec)
    assert (await engine.sample_processes())[spec.endpoint_id].run != before.run


async def test_the_machine_is_sampled(engine: Engine) -> None:
    before, after = await engine.sample_machine(), await engine.sample_machine()
    assert after.cpu_seconds >= before.cpu_seconds > 0
    assert after.cpu_cores >= 1
    assert after.load_average >= 0
    assert 0 < after.memory_used_bytes < after.memory_total_bytes
    assert 0 <= after.disk_used_bytes < after.disk_total_bytes
