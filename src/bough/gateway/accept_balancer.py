"""Balances new connections over the workers: the worker with the fewest connections accepts first.

All workers listen on the same sockets and publish their connection counts in shared memory. A worker that has
more connections than another waits briefly before it accepts, so that the other can. It never waits longer,
even if the other worker has died.
"""

import fcntl
import mmap
import os
from pathlib import Path

from bough.gateway.peers import MAX_WORKERS

ACCEPT_DELAY_SECONDS = 0.002
_COUNT_BYTES = 4
_WITHDRAWN = b"\xff" * _COUNT_BYTES  # above every real count


class AcceptBalancer:
    def __init__(self, folder: Path, worker_number: int) -> None:
        self._memory = _map_counts(folder / "connections")
        self._slot = slice(worker_number * _COUNT_BYTES, (worker_number + 1) * _COUNT_BYTES)
        self.record_connections(0)

    def record_connections(self, connections: int) -> None:
        self._memory[self._slot] = connections.to_bytes(_COUNT_BYTES)

    def has_fewest(self) -> bool:
        own = self._memory[self._slot]
        return all(
            self._memory[at : at + _COUNT_BYTES] >= own for at in range(0, MAX_WORKERS * _COUNT_BYTES, _COUNT_BYTES)
        )

    def withdraw(self) -> None:
        """Stop the other workers from waiting for this one: it accepts no more connections."""
        self._memory[self._slot] = _WITHDRAWN


def _map_counts(path: Path) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # the first worker initializes the file
        if os.fstat(fd).st_size < MAX_WORKERS * _COUNT_BYTES:
            os.pwrite(fd, _WITHDRAWN * MAX_WORKERS, 0)
        fcntl.flock(fd, fcntl.LOCK_UN)  # the mapping keeps the file open, and would keep the lock
        return mmap.mmap(fd, MAX_WORKERS * _COUNT_BYTES)
    finally:
        os.close(fd)
