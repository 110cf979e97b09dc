"""Child processes of the supervisor that start at the same time."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from bough.supervisor.processes import ChildProcess, ProcessSpec

READY = """
import os, sys
os.write(int(sys.argv[sys.argv.index("--ready-fd") + 1]), b'{"ready": true}\\n')
sys.stdin.read()
"""


async def test_children_that_start_at_once_leave_our_signals_as_they_were(tmp_path: Path) -> None:
    """Each start blocks signals for a while, and must not restore the mask of another."""
    alive_fd, supervisor_fd = os.pipe()
    children = [
        ChildProcess(
            ProcessSpec(
                name=f"{n}", command=(sys.executable, "-c", READY), alive_fd=alive_fd, log_file=tmp_path / "log"
            )
        )
        for n in range(4)
    ]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    await asyncio.gather(*(child.start() for child in children))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    for child in children:
        await child.stop(signal.SIGKILL, asyncio.Event())
    os.close(alive_fd)
    os.close(supervisor_fd)
