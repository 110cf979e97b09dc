"""Rate limits: token buckets, in this process.

A key has one bucket for all requests and one per route; callers without a key share one per address.
"""

from dataclasses import dataclass

from bough import clock
from bough.config import Settings
from bough.errors import RateExceeded

_MOST_BUCKETS = 50_000  # full buckets are forgotten first: a forgotten bucket is a full one


@dataclass(slots=True)
class Bucket:
    size: float
    per_second: float
    level: float
    at: float

    def take(self, now: float) -> float:
        """Zero when there was a token, else the seconds until there is one."""
        self.level = min(self.size, self.level + (now - self.at) * self.per_second)
        self.at = now
        if self.level >= 1:
            self.level -= 1
            return 0.0
        return (1 - self.level) / self.per_second


class Limiter:
    def __init__(self, settings: Settings) -> None:
        self._per_key = settings.rate_per_minute
        self._per_route = settings.rate_per_second_and_route
        self._per_address = settings.rate_per_minute_and_address
        self._buckets: dict[tuple[str, ...], Bucket] = {}

    def take(self, key_id: int, route: str) -> None:
        self._take(("key", str(key_id)), self._per_key, self._per_key / 60, f"{self._per_key} requests a minute")
        self._take(
            ("route", str(key_id), route), self._per_route, self._per_route, f"{self._per_route} requests a second"
        )

    def take_address(self, address: str) -> None:
        limit = f"{self._per_address} requests a minute without a valid key"
        self._take(("address", address), self._per_address, self._per_address / 60, limit)

    def _take(self, name: tuple[str, ...], size: float, per_second: float, limit: str) -> None:
        now = clock.monotonic()
        bucket = self._buckets.get(name)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[name] = Bucket(size, per_second, size, now)
        if wait := bucket.take(now):
            raise RateExceeded(f"Too many requests: the limit is {limit}. Try again in {max(wait, 0.1):.1f} s.", wait)

    def _make_room(self, now: float) -> None:
        if len(self._buckets) < _MOST_BUCKETS:
            return
        full = [
            name for name, each in self._buckets.items() if each.level + (now - each.at) * each.per_second >= each.size
        ]
        for name in full or list(self._buckets)[: _MOST_BUCKETS // 10]:
            del self._buckets[name]
