"""Limits the server connections of all workers together, with one shared file per endpoint or pool.

Each worker has a slot in the file: its number of server connections and of waiting clients. A worker locks the
file while it takes a server connection, so all workers together never exceed the limit. The server connections
of a worker that was killed become free again.
"""

import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bough.gateway.peers import MAX_WORKERS

_SLOT = struct.Struct(">II")
_SIZE = _SLOT.size * MAX_WORKERS
_EMPTY = (0, 0)


class ServerBudget:
    def __init__(self, folder: Path, worker_number: int, is_alive: Callable[[int], bool]) -> None:
        self._folder = folder
        self._number = worker_number
        self._is_alive = is_alive
        self._files: dict[str, int] = {}
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in folder.iterdir():  # a killed worker with our number may have left its counts
            with self._locked(path.name) as fd:
                self._write(fd, *_EMPTY)
            self._close_file(path.name)

    def acquire(self, key: str, limit: int) -> bool:
        """Take one server connection if the limit allows it."""
        with self._locked(key) as fd:
            slots = _read(fd)
            if sum(used for used, _ in slots) >= limit and not self._clear_dead_workers(fd, slots, limit):
                return False
            used, waiting = slots[self._number]
            if used >= self._share(slots, limit):
                return False
            self._write(fd, used + 1, waiting)
            return True

    def release(self, key: str) -> None:
        with self._locked(key) as fd:
            used, waiting = _read(fd)[self._number]
            self._write(fd, max(0, used - 1), waiting)

    def set_waiting(self, key: str, waiting: int) -> None:
        """Publish the number of our clients that wait."""
        with self._locked(key) as fd:
            used, published = _read(fd)[self._number]
            if published != waiting:
                self._write(fd, used, waiting)

    def get_excess(self, key: str, limit: int) -> tuple[int, int]:
        """Return how many clients of other workers wait, and how many server connections we have above our share."""
        with self._locked(key) as fd:
            slots = _read(fd)
        used, waiting = slots[self._number]
        return sum(each for _, each in slots) - waiting, max(0, used - self._share(slots, limit))

    def _share(self, slots: list[tuple[int, int]], limit: int) -> int:
        """Our share: the whole limit unless clients of other workers wait."""
        others = [slot for number, slot in enumerate(slots) if number != self._number and slot != _EMPTY]
        return limit // (len(others) + 1) if any(waiting for _, waiting in others) else limit

    def withdraw(self, key: str) -> None:
        """Clear our slot, and delete the file if all slots are empty."""
        with self._locked(key) as fd:
            self._write(fd, *_EMPTY)
            if all(slot == _EMPTY for slot in _read(fd)):
                (self._folder / key).unlink(missing_ok=True)
        self._close_file(key)

    def close(self) -> None:
        for key in tuple(self._files):
            self.withdraw(key)

    def _clear_dead_workers(self, fd: int, slots: list[tuple[int, int]], limit: int) -> bool:
        """Clear the slots of dead workers; return whether the limit then allows one more."""
        for number, (used, _) in enumerate(slots):
            if used and number != self._number and not self._is_alive(number):
                os.pwrite(fd, _SLOT.pack(*_EMPTY), number * _SLOT.size)
        return sum(used for used, _ in _read(fd)) < limit

    def _write(self, fd: int, used: int, waiting: int) -> None:
        os.pwrite(fd, _SLOT.pack(used, waiting), self._number * _SLOT.size)

    @contextmanager
    def _locked(self, key: str) -> Iterator[int]:
        while True:
            fd = self._files.get(key)
            if fd is None:
                fd = self._files[key] = os.open(self._folder / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                break
            self._close_file(key)  # another worker deleted the file before we locked it
        try:
            yield fd
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _close_file(self, key: str) -> None:
        fd = self._files.pop(key, None)
        if fd is not None:
            os.close(fd)


def _read(fd: int) -> list[tuple[int, int]]:
    data = os.pread(fd, _SIZE, 0).ljust(_SIZE, b"\0")
    return list(_SLOT.iter_unpack(data))
