"""Processes of the supervisor, started at once."""

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
    """Each blocks some while it is started, and must not give back what another has blocked."""
    alive, our_end = os.pipe()
    children = [
        ChildProcess(
            ProcessSpec(name=f"{n}", command=(sys.executable, "-c", READY), alive_fd=alive, log_file=tmp_path / "log")
        )
        for n in range(4)
    ]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    await asyncio.gather(*(child.start() for child in children))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    for child in children:
        await child.stop(signal.SIGKILL, asyncio.Event())
    os.close(alive)
    os.close(our_end)
