"""A postmaster as a process, which is held by a pidfd, so that a recycled pid is never signalled."""

import asyncio
import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from bough.engine.local.isolation import processes

_LOGGER_TITLE = b"postgres: logger"


@dataclass(slots=True)
class Postmaster:
    """A process that was a postmaster when it was found. A context manager."""

    pid: int
    _pidfd: int
    _is_open: bool = True

    @classmethod
    def open(cls, pid: int) -> Self | None:
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pidfd(self) -> int:
        """Becomes readable when the process ends. Valid until `close`."""
        return self._pidfd

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._pidfd)

    def __del__(self) -> None:
        self.close()  # a caller that was cancelled never entered the context

    def signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass

    def has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        ended = bool(poll.poll(0))
        if ended:
            reap(self.pid)
        return ended

    async def wait_for_exit(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the process to end. Return whether it ended."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            async with asyncio.timeout(timeout):
                await ended.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._pidfd)
        reap(self.pid)
        return True


def is_stuck_in_shutdown(pid: int) -> bool:
    """Return whether an idle checkpointer is the only remaining child of the server.

    A server that is stopped while it recovers from the crash of a session may wait forever for its checkpointer,
    which it never told to exit (seen in Postgres 17). During the shutdown checkpoint the process title differs.
    """
    try:
        titles = [_read_title(child) for child in processes.list_children(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return [title for title in titles if title != _LOGGER_TITLE] == [b"postgres: checkpointer"]


def find_logger(pid: int) -> int | None:
    """Return the process that writes the log of an audited server. It outlives the server for a moment."""
    for child in processes.list_children(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            if _read_title(child) == _LOGGER_TITLE:
                return child
    return None


def _read_title(pid: int) -> bytes:
    return processes.read_arguments(pid).rstrip(b"\0 ")


def reap(pid: int) -> None:
    """Reap an ended child process. Ignore a process that is not a child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
