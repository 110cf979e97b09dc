"""Workers of an earlier program of this process: they are its children still, and end with their last connection.

A restart replaces the supervisor's program. The workers it had go on until others have taken their
place; then they accept nobody new.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

STOP_TIMEOUT = 10.0  # seconds until one that was asked to end is killed


class DrainingWorkers:
    """`changed` hears a sentence whenever one ended."""

    def __init__(self, pids: Iterable[int], on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._running: dict[int, int] = {pid: os.pidfd_open(pid) for pid in pids if _is_our_child(pid)}
        for pid, descriptor in self._running.items():
            asyncio.get_running_loop().add_reader(descriptor, self._on_exit, pid)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(self._running)

    def stop_accepting(self) -> None:
        """They accept nobody new from now on."""
        self._send(signal.SIGQUIT)

    async def stop(self, force: asyncio.Event) -> None:
        """They end now, and tell their clients."""
        self._send(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                while self._running and not force.is_set():  # noqa: ASYNC110 - few, and seldom
                    await asyncio.sleep(0.02)
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for descriptor in self._running.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)

    def _on_exit(self, pid: int) -> None:
        descriptor = self._running.pop(pid)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        os.waitpid(pid, 0)
        self._on_change(f"a draining gateway worker (pid {pid}) ended")


def _is_our_child(pid: int) -> bool:
    """Whether it lives and is ours: a number may have been given to a stranger."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False
