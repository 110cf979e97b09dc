"""Who has how many connections, in memory that all workers share: the one that has fewest takes the next.

All of them listen on the same sockets. One that has more than another waits a moment before it takes a
client, so that the other can; nobody waits longer, whatever became of the other.
"""

import fcntl
import mmap
import os
from pathlib import Path

from bough.gateway.peers import MAX_WORKERS

ACCEPT_DELAY_SECONDS = 0.002  # seconds
_WIDTH = 4  # bytes of one count
_NOBODY = b"\xff" * _WIDTH  # more than anybody has


class AcceptBalancer:
    def __init__(self, folder: Path, worker_number: int) -> None:
        self._memory = _shared(folder / "connections")
        self._place = slice(worker_number * _WIDTH, (worker_number + 1) * _WIDTH)
        self.record_connections(0)

    def record_connections(self, connections: int) -> None:
        """How many we have now."""
        self._memory[self._place] = connections.to_bytes(_WIDTH)

    def has_fewest(self) -> bool:
        ours = self._memory[self._place]
        return all(self._memory[at : at + _WIDTH] >= ours for at in range(0, MAX_WORKERS * _WIDTH, _WIDTH))

    def withdraw(self) -> None:
        """We take nobody any more; the others need not wait for us."""
        self._memory[self._place] = _NOBODY


def _shared(path: Path) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # one of us makes it
        if os.fstat(fd).st_size < MAX_WORKERS * _WIDTH:
            os.pwrite(fd, _NOBODY * MAX_WORKERS, 0)
        fcntl.flock(fd, fcntl.LOCK_UN)  # the memory keeps the file open, and would keep the lock
        return mmap.mmap(fd, MAX_WORKERS * _WIDTH)
    finally:
        os.close(fd)
