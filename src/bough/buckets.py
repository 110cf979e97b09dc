"""Token buckets, in this process: how often somebody may do something."""

from collections.abc import Hashable
from dataclasses import dataclass

from bough import clock

_MOST = 50_000  # full buckets are forgotten first: a forgotten bucket is a full one


@dataclass(slots=True)
class Bucket:
    size: float
    per_second: float
    level: float
    at: float

    def take(self, now: float) -> float:
        """Zero when there was a token, else the seconds until there is one."""
        if wait := self.wait(now):
            return wait
        self.level -= 1
        return 0.0

    def wait(self, now: float) -> float:
        self.level = min(self.size, self.level + (now - self.at) * self.per_second)
        self.at = now
        return 0.0 if self.level >= 1 else (1 - self.level) / self.per_second

    def is_full(self, now: float) -> bool:
        return self.level + (now - self.at) * self.per_second >= self.size


class Buckets:
    def __init__(self) -> None:
        self._known: dict[Hashable, Bucket] = {}

    def take(self, name: Hashable, size: float, per_second: float) -> float:
        """Zero when there was a token, else the seconds until there is one. A new bucket is full."""
        now = clock.monotonic()
        bucket = self._known.get(name)
        if bucket is None:
            self._make_room(now)
            bucket = self._known[name] = Bucket(size, per_second, size, now)
        return bucket.take(now)

    def wait(self, name: Hashable) -> float:
        """Seconds until there is a token; none is taken."""
        bucket = self._known.get(name)
        return 0.0 if bucket is None else bucket.wait(clock.monotonic())

    def give_back(self, name: Hashable) -> None:
        """A token that was taken."""
        if bucket := self._known.get(name):
            bucket.level += 1  # what is more than its size is lost at the next look

    def refill(self, name: Hashable) -> None:
        self._known.pop(name, None)

    def _make_room(self, now: float) -> None:
        if len(self._known) < _MOST:
            return
        full = [name for name, each in self._known.items() if each.is_full(now)]
        for name in full or list(self._known)[: _MOST // 10]:
            del self._known[name]
