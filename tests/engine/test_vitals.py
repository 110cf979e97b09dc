"""Memory and CPU time of a compute's processes, as the kernel reports them, and the position of its WAL."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from bough import clock
from bough.engine.local.computes import session
from bough.engine.local.computes.process_usage import measure_processes
from bough.engine.local.folders import Folders
from bough.engine.local.isolation import processes
from bough.engine.port import ComputeUsage, EngineError
from support.engine_home import Compute, EngineHome
from support.requirements import require_root

# Drops the permission to trace other processes, as containers do, and measures nevertheless.
WITHOUT_TRACE_PERMISSION = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(24, 19, 0, 0, 0) == 0
program = "import sys; from bough.engine.local.computes.process_usage import measure_processes;"
program += " print(measure_processes(int(sys.argv[1])).memory_bytes)"
os.execv(sys.executable, [sys.executable, "-c", program, sys.argv[1]])
"""

ENOUGH = 500_000_000  # nanoseconds: many times the kernel's rounding


def read_resident_bytes(pid: int) -> int:
    """Return 0 when the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0


async def measure_usage(compute: Compute) -> ComputeUsage:
    """Retry until it can be measured."""
    while True:
        try:
            found = await compute.home.engine.measure_usage(compute.spec.endpoint_id)
        except EngineError as error:
            assert error.transient
            found = None
        if found is not None:
            return found
        await asyncio.sleep(0.01)


async def wait_for_sockets(compute: Compute) -> Path:
    """Return its socket folder as soon as it accepts connections, even if the engine does not report it as ready."""
    sockets = Folders(compute.home.settings).socket_folder(compute.spec.endpoint_id)
    while True:
        try:
            async with session.open_session(sockets):
                return sockets
        except EngineError as error:
            assert error.transient
            await asyncio.sleep(0.01)


async def burn_cpu(client: Any) -> float:
    """Return the CPU seconds of the session's process from an independent source."""
    schedule = Path(f"/proc/{await client.fetchval('select pg_backend_pid()')}/schedstat")
    while (nanoseconds := int(schedule.read_text().split()[0])) < ENOUGH:
        await client.execute("select count(*) from generate_series(1, 300000)")
    return nanoseconds / 1e9


async def open_pidfd_of(client: Any) -> int:
    """Return a descriptor that becomes readable when the session's process ends."""
    return os.pidfd_open(await client.fetchval("select pg_backend_pid()"))


def measure_without_trace_permission(pid: int) -> int:
    command = [sys.executable, "-c", WITHOUT_TRACE_PERMISSION, str(pid)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


async def test_what_processes_share_is_counted_once(home: EngineHome) -> None:
    compute = await home.create_compute()
    everyone = [compute.pid, *processes.list_children(compute.pid)]
    vitals = measure_processes(compute.pid)
    assert vitals is not None
    assert len(everyone) > 3
    assert read_resident_bytes(compute.pid) / 4 < vitals.memory_bytes < sum(map(read_resident_bytes, everyone))


async def test_a_restart_is_seen_by_its_time(home: EngineHome) -> None:
    compute = await home.create_compute()
    first = await home.engine.measure_usage(compute.spec.endpoint_id)
    assert first is not None
    assert timedelta(0) <= clock.now() - first.started_at + timedelta(seconds=2)
    await compute.kill()
    await compute.start()
    second = await home.engine.measure_usage(compute.spec.endpoint_id)
    assert second is not None
    assert second.started_at > first.started_at


async def test_the_time_of_sessions_is_counted_while_they_last_and_after(home: EngineHome) -> None:
    compute = await home.create_compute()
    before = await measure_usage(compute)
    async with compute.connect() as client:
        end = await open_pidfd_of(client)
        took = await burn_cpu(client)
        during = await measure_usage(compute)
    await asyncio.to_thread(select.select, [end], [], [])
    os.close(end)
    after = await measure_usage(compute)
    for each in (during, after):  # neither omitted nor counted twice; the other processes use little CPU meanwhile
        assert took / 2 < each.cpu_seconds - before.cpu_seconds < 1.5 * took
    assert before.started_at == during.started_at == after.started_at


async def test_a_restart_begins_anew(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as client:
        await burn_cpu(client)
    first = await measure_usage(compute)
    await compute.suspend()
    await compute.start()
    second = await measure_usage(compute)
    assert second.started_at != first.started_at
    assert second.cpu_seconds < first.cpu_seconds
    assert first.wal_position is not None
    assert second.wal_position is not None
    assert second.wal_position >= first.wal_position


async def test_it_is_the_same_run_when_a_session_crashes(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as client, compute.connect() as bystander:
        took = await burn_cpu(client)
        first = await measure_usage(compute)
        end = await open_pidfd_of(bystander)
        os.kill(await client.fetchval("select pg_backend_pid()"), signal.SIGKILL)
        await asyncio.to_thread(select.select, [end], [], [])
        for broken in (client, bystander):
            broken.terminate()
    os.close(end)
    second = await measure_usage(compute)
    assert second.started_at == first.started_at
    assert second.cpu_seconds > first.cpu_seconds - took / 2


async def test_what_is_written_moves_the_end_of_the_wal(home: EngineHome) -> None:
    compute = await home.create_compute()
    before = await measure_usage(compute)
    await compute.fetch_value("create table large as select repeat('x', 1000) from generate_series(1, 5000)")
    after = await measure_usage(compute)
    assert before.wal_position is not None
    assert after.wal_position is not None
    assert after.wal_position > before.wal_position + 5_000_000


async def test_a_server_that_only_follows_writes_none(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.start(is_read_only=True)
    async with session.open_session(await wait_for_sockets(compute)) as compute_session:
        status = await compute_session.read_server_status()
    assert status.wal is None
    assert status.started_at <= clock.now()


async def test_without_the_right_to_trace_there_is_a_figure_all_the_same(home: EngineHome) -> None:
    require_root()
    compute = await home.create_compute()
    assert await asyncio.to_thread(measure_without_trace_permission, compute.pid) > 0


def test_a_process_that_is_gone_has_none() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert measure_processes(gone.pid) is None
