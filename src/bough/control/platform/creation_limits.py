"""Limits on creating instant databases: per hour and address, per hour in total, and concurrent.

Callers have no account, so the only way to limit one is by address. The counts are per process.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bough.config import Settings
from bough.control.platform.admission import Admission
from bough.control.platform.rate_limits import network_of
from bough.errors import Denied, RateLimitExceeded, Unavailable
from bough.token_buckets import TokenBuckets

_HOUR = 3600.0
_MAX_QUEUE_LENGTH = 1000
_UNLIMITED_RATE = 1000.0  # per second; only the concurrency is limited


class CreationLimits:
    def __init__(self, settings: Settings) -> None:
        self._per_hour = settings.instant_per_hour
        self._per_address = settings.instant_per_hour_and_address
        self._buckets = TokenBuckets()
        self._admission = Admission(settings.instant_at_once, _UNLIMITED_RATE)
        self._queue_length = 0

    @property
    def is_busy(self) -> bool:
        """Return whether a caller is waiting for a new database."""
        return self._queue_length > 0

    def take(self, address: str) -> None:
        """Count one creation by this address. A request over its own limit does not count against the total."""
        if not self._per_hour:
            raise Denied("Instant databases are disabled here. The operator can enable them with instant_per_hour.")
        self._take(("address", network_of(address)), self._per_address, f"{self._per_address} per hour and address")
        self._take(("all",), self._per_hour, f"{self._per_hour} per hour for all callers")

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Limit concurrent creations, in arrival order, so that each one finishes quickly."""
        if self._queue_length >= _MAX_QUEUE_LENGTH:
            raise Unavailable("Too many databases are being created at the moment. Try again in a few seconds.")
        self._queue_length += 1
        try:
            async with self._admission.admit():
                yield
        finally:
            self._queue_length -= 1

    def _take(self, name: tuple[str, ...], size: int, limit: str) -> None:
        if wait := self._buckets.take(name, size, size / _HOUR):
            raise RateLimitExceeded(
                f"Too many new databases: the limit is {limit}. Try again in {max(wait, 1):.0f} s.", wait
            )
