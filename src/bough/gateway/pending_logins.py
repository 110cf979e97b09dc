"""Connections that have not logged in yet: how many a worker has, and who makes room when there are too many.

No client has more than a part of them. When a worker has all that it takes, a connection of another client
takes the place of the oldest one of the client that has the most, so few clients cannot keep out the rest.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bough.errors import RateLimitExceeded

MAX_PENDING_LOGINS = 4000
MAX_PENDING_LOGINS_PER_CLIENT = 1000

DropCallback = Callable[[], None]


class PendingLogins:
    def __init__(self) -> None:
        self._of: dict[str, dict[int, DropCallback]] = {}  # by client, in the order they came
        self._count = 0
        self._next = 0

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def register(self, limit_key: str, drop: DropCallback) -> Iterator[None]:
        """Until it has logged in; `drop` ends it before that, when another needs its place."""
        mine = len(self._of.get(limit_key, ()))
        if mine >= MAX_PENDING_LOGINS_PER_CLIENT or (self._count >= MAX_PENDING_LOGINS and not self._drop_oldest(mine)):
            raise RateLimitExceeded("Too many clients are logging in at this moment; try again.", 1.0)
        number = self._next = self._next + 1
        self._of.setdefault(limit_key, {})[number] = drop
        self._count += 1
        try:
            yield
        finally:
            self._remove(limit_key, number)

    def _drop_oldest(self, fewer: int) -> bool:
        """Whether one was dropped, of a client that has more than `fewer`."""
        client = max(self._of, key=lambda each: len(self._of[each]))
        if len(self._of[client]) <= fewer:
            return False
        number, drop = next(iter(self._of[client].items()))
        self._remove(client, number)
        drop()
        return True

    def _remove(self, client: str, number: int) -> None:
        mine = self._of.get(client, {})
        if mine.pop(number, None) is not None:
            self._count -= 1
            if not mine:
                del self._of[client]
