"""Token buckets in the memory of one process, for rate limits."""

from collections.abc import Hashable
from dataclasses import dataclass

from bough import clock

_MAX_BUCKETS = 50_000  # full buckets are evicted first, because a new bucket is full too


@dataclass(slots=True)
class TokenBucket:
    capacity: float
    per_second: float
    tokens: float
    updated_at: float

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
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
        self._buckets: dict[Hashable, TokenBucket] = {}

    def take(self, key: Hashable, capacity: float, per_second: float) -> float:
        """Take a token and return 0, or return the seconds until there is one. A new bucket is full."""
        now = clock.monotonic()
        bucket = self._buckets.get(key)
        if bucket is None:
            self._evict(now)
            bucket = self._buckets[key] = TokenBucket(capacity, per_second, capacity, now)
        return bucket.take(now)

    def seconds_until_token(self, key: Hashable) -> float:
        """Seconds until there is a token; takes none."""
        bucket = self._buckets.get(key)
        return 0.0 if bucket is None else bucket.seconds_until_token(clock.monotonic())

    def return_token(self, key: Hashable) -> None:
        """Put back a token that was taken."""
        if bucket := self._buckets.get(key):
            bucket.tokens += 1  # the next call caps it at the capacity

    def reset(self, key: Hashable) -> None:
        self._buckets.pop(key, None)

    def _evict(self, now: float) -> None:
        if len(self._buckets) < _MAX_BUCKETS:
            return
        full = [key for key, each in self._buckets.items() if each.is_full(now)]
        for key in full or list(self._buckets)[: _MAX_BUCKETS // 10]:
            del self._buckets[key]
