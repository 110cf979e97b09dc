"""Gateway workers that were started before the supervisor replaced its own program.

`bough restart` executes a new program in the supervisor's process, so the old workers remain its children. They keep
accepting clients until the new workers are ready, then finish their open connections and exit.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

STOP_TIMEOUT = 10.0  # seconds after SIGTERM until a worker is killed


class DrainingWorkers:
    """Calls `on_change` with a message whenever a worker exits."""

    def __init__(self, pids: Iterable[int], on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._running: dict[int, int] = {pid: os.pidfd_open(pid) for pid in pids if _is_running_child(pid)}
        for pid, pidfd in self._running.items():
            asyncio.get_running_loop().add_reader(pidfd, self._on_exit, pid)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(self._running)

    def stop_accepting(self) -> None:
        """Tell the workers to accept no new clients and to exit with their last connection."""
        self._send_signal(signal.SIGQUIT)

    async def stop(self, force: asyncio.Event) -> None:
        """Stop the workers, which notify their clients; kill those that do not exit in time."""
        self._send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                while self._running and not force.is_set():  # noqa: ASYNC110 - short and rare
                    await asyncio.sleep(0.02)
        self._send_signal(signal.SIGKILL)

    def _send_signal(self, signal_number: signal.Signals) -> None:
        for pidfd in self._running.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal_number)

    def _on_exit(self, pid: int) -> None:
        pidfd = self._running.pop(pid)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        os.waitpid(pid, 0)
        self._on_change(f"a draining gateway worker (pid {pid}) ended")


def _is_running_child(pid: int) -> bool:
    """Whether the pid is a running child of ours; the kernel may have given the number to another process."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False
