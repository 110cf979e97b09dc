"""Limits the connections of a worker that have not logged in yet.

Each client has a limit of its own. When the worker is full, a connection of another client replaces the oldest
connection of the client that has the most, so a few clients cannot lock out the others.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bough.errors import RateLimitExceeded

MAX_PENDING_LOGINS = 4000
MAX_PENDING_LOGINS_PER_CLIENT = 1000

DropCallback = Callable[[], None]


class PendingLogins:
    def __init__(self) -> None:
        self._by_client: dict[str, dict[int, DropCallback]] = {}  # oldest first
        self._count = 0
        self._last_number = 0

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def register(self, limit_key: str, drop: DropCallback) -> Iterator[None]:
        """Register a connection until it has logged in. `drop` is called if another connection replaces it."""
        own = len(self._by_client.get(limit_key, ()))
        if own >= MAX_PENDING_LOGINS_PER_CLIENT or (self._count >= MAX_PENDING_LOGINS and not self._drop_oldest(own)):
            raise RateLimitExceeded("Too many clients are logging in now; try again.", 1.0)
        number = self._last_number = self._last_number + 1
        self._by_client.setdefault(limit_key, {})[number] = drop
        self._count += 1
        try:
            yield
        finally:
            self._remove(limit_key, number)

    def _drop_oldest(self, more_than: int) -> bool:
        """Drop the oldest connection of the client that has the most, if it has more than `more_than`."""
        client = max(self._by_client, key=lambda each: len(self._by_client[each]))
        if len(self._by_client[client]) <= more_than:
            return False
        number, drop = next(iter(self._by_client[client].items()))
        self._remove(client, number)
        drop()
        return True

    def _remove(self, client: str, number: int) -> None:
        connections = self._by_client.get(client, {})
        if connections.pop(number, None) is not None:
            self._count -= 1
            if not connections:
                del self._by_client[client]
