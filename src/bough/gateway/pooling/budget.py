"""How many server connections each worker has at an endpoint, in a file that all of them share.

Each worker has a place in it: what it has, and whether clients of it wait for more. Whoever takes one holds
the file's lock for that moment, so all together never have more than is allowed. What a worker had that was
killed is free again.
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
_NOTHING = (0, 0)


class ServerBudget:
    def __init__(self, folder: Path, worker_number: int, is_alive: Callable[[int], bool]) -> None:
        self._folder = folder
        self._number = worker_number
        self._is_alive = is_alive
        self._files: dict[str, int] = {}
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in folder.iterdir():  # whoever had our number before had what stands there
            with self._locked(path.name) as fd:
                self._write(fd, *_NOTHING)
            self._forget_file(path.name)

    def acquire(self, key: str, limit: int) -> bool:
        """Whether we may have one more."""
        with self._locked(key) as fd:
            places = _read(fd)
            if sum(had for had, _ in places) >= limit and not self._clear_dead_workers(fd, places, limit):
                return False
            had, wants = places[self._number]
            if had >= self._share(places, limit):
                return False
            self._write(fd, had + 1, wants)
            return True

    def release(self, key: str) -> None:
        with self._locked(key) as fd:
            had, wants = _read(fd)[self._number]
            self._write(fd, max(0, had - 1), wants)

    def set_waiting(self, key: str, waiting: int) -> None:
        """So many of ours wait."""
        with self._locked(key) as fd:
            had, wants = _read(fd)[self._number]
            if wants != waiting:
                self._write(fd, had, waiting)

    def get_excess(self, key: str, limit: int) -> tuple[int, int]:
        """How many clients of others wait, and how many of ours are more than our share while they do."""
        with self._locked(key) as fd:
            places = _read(fd)
        had, wants = places[self._number]
        return sum(wants for _, wants in places) - wants, max(0, had - self._share(places, limit))

    def _share(self, places: list[tuple[int, int]], limit: int) -> int:
        """All of it, as long as nobody else waits for more."""
        others = [place for number, place in enumerate(places) if number != self._number and place != _NOTHING]
        return limit // (len(others) + 1) if any(wants for _, wants in others) else limit

    def withdraw(self, key: str) -> None:
        """We have nothing there any more; the last one takes the file away."""
        with self._locked(key) as fd:
            self._write(fd, *_NOTHING)
            if all(place == _NOTHING for place in _read(fd)):
                (self._folder / key).unlink(missing_ok=True)
        self._forget_file(key)

    def close(self) -> None:
        for key in tuple(self._files):
            self.withdraw(key)

    def _clear_dead_workers(self, fd: int, places: list[tuple[int, int]], limit: int) -> bool:
        """Whether there is room when those are left out that do not live."""
        for number, (had, _) in enumerate(places):
            if had and number != self._number and not self._is_alive(number):
                os.pwrite(fd, _SLOT.pack(*_NOTHING), number * _SLOT.size)
        return sum(had for had, _ in _read(fd)) < limit

    def _write(self, fd: int, had: int, wants: int) -> None:
        os.pwrite(fd, _SLOT.pack(had, wants), self._number * _SLOT.size)

    @contextmanager
    def _locked(self, key: str) -> Iterator[int]:
        while True:
            fd = self._files.get(key)
            if fd is None:
                fd = self._files[key] = os.open(self._folder / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                break
            self._forget_file(key)  # another took it away meanwhile
        try:
            yield fd
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _forget_file(self, key: str) -> None:
        fd = self._files.pop(key, None)
        if fd is not None:
            os.close(fd)


def _read(fd: int) -> list[tuple[int, int]]:
    text = os.pread(fd, _SIZE, 0).ljust(_SIZE, b"\0")
    return list(_SLOT.iter_unpack(text))
