"""Memory and start of a compute's processes, as the kernel tells them."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from bough import clock
from bough.engine.local.computes.vitals import vitals_of
from bough.engine.local.isolation import processes
from engine.homes import Home
from requires import require_root

# Gives up the right to look into processes of others, as containers do, and looks all the same.
WITHOUT_THE_RIGHT_TO_TRACE = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(24, 19, 0, 0, 0) == 0
looks = "import sys; from bough.engine.local.computes.vitals import vitals_of;"
looks += " print(vitals_of(int(sys.argv[1])).memory_bytes)"
os.execv(sys.executable, [sys.executable, "-c", looks, sys.argv[1]])
"""


def resident(pid: int) -> int:
    """Nothing, if it has ended meanwhile."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def seen_without_the_right(pid: int) -> int:
    command = [sys.executable, "-c", WITHOUT_THE_RIGHT_TO_TRACE, str(pid)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


async def test_what_processes_share_is_counted_once(home: Home) -> None:
    compute = await home.compute()
    everyone = [compute.pid, *processes.children(compute.pid)]
    vitals = vitals_of(compute.pid)
    assert vitals is not None
    assert len(everyone) > 3
    assert resident(compute.pid) / 2 < vitals.memory_bytes < sum(map(resident, everyone))


async def test_a_restart_is_seen_by_its_time(home: Home) -> None:
    compute = await home.compute()
    first = await home.engine.usage(compute.spec.endpoint_id)
    assert first is not None
    assert timedelta(0) <= clock.now() - first.started_at + timedelta(seconds=2)
    await compute.kill()
    await compute.run()
    second = await home.engine.usage(compute.spec.endpoint_id)
    assert second is not None
    assert second.started_at > first.started_at


async def test_without_the_right_to_trace_there_is_a_figure_all_the_same(home: Home) -> None:
    require_root()
    compute = await home.compute()
    assert await asyncio.to_thread(seen_without_the_right, compute.pid) > 0


def test_a_process_that_is_gone_has_none() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert vitals_of(gone.pid) is None
