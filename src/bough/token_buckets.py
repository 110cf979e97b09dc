"""Token buckets, in this process: how often somebody may do something."""

from collections.abc import Hashable
from dataclasses import dataclass

from bough import clock

_MAX_BUCKETS = 50_000  # full buckets are forgotten first: a forgotten bucket is a full one


@dataclass(slots=True)
class TokenBucket:
    capacity: float
    per_second: float
    tokens: float
    updated_at: float

    def take(self, now: float) -> float:
        """Zero when there was a token, else the seconds until there is one."""
        if wait := self.seconds_until_token(now):
            return wait
        self.tokens -= 1
        return 0.0

    def seconds_until_token(self, now: float) -> float:
        self.tokens = min(self.capacity, self.tokens + (now - self.updated_at) * self.per_second)
        self.updated_at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.per_second

    def is_full(self, now: float) -> bool:
        return self.tokens + (now - self.updated_at) * self.per_second >= self.capacity


class TokenBuckets:
    def __init__(self) -> None:
        self._known: dict[Hashable, TokenBucket] = {}

    def take(self, key: Hashable, capacity: float, per_second: float) -> float:
        """Zero when there was a token, else the seconds until there is one. A new bucket is full."""
        now = clock.monotonic()
        bucket = self._known.get(key)
        if bucket is None:
            self._evict(now)
            bucket = self._known[key] = TokenBucket(capacity, per_second, capacity, now)
        return bucket.take(now)

    def seconds_until_token(self, key: Hashable) -> float:
        """Seconds until there is a token; none is taken."""
        bucket = self._known.get(key)
        return 0.0 if bucket is None else bucket.seconds_until_token(clock.monotonic())

    def return_token(self, key: Hashable) -> None:
        """A token that was taken."""
        if bucket := self._known.get(key):
            bucket.tokens += 1  # what is more than its size is lost at the next look

    def reset(self, key: Hashable) -> None:
        self._known.pop(key, None)

    def _evict(self, now: float) -> None:
        if len(self._known) < _MAX_BUCKETS:
            return
        full = [name for name, each in self._known.items() if each.is_full(now)]
        for name in full or list(self._known)[: _MAX_BUCKETS // 10]:
            del self._known[name]
