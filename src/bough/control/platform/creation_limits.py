"""How many instant databases may be made: an hour by one address, an hour by all, and at once.

Whoever makes one has no account, so there is nobody to hold responsible but an address. Counted in this process.
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
_ANY_RATE = 1000.0  # a second; what is made at once is limited, not how fast


class CreationLimits:
    def __init__(self, settings: Settings) -> None:
        self._per_hour = settings.instant_per_hour
        self._per_address = settings.instant_per_hour_and_address
        self._buckets = TokenBuckets()
        self._admission = Admission(settings.instant_at_once, _ANY_RATE)
        self._queue_length = 0

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for a new one."""
        return self._queue_length > 0

    def take(self, address: str) -> None:
        """One by this address. What is asked for too often costs the others nothing."""
        if not self._per_hour:
            raise Denied("No instant databases are made here; the operator can allow them with instant_per_hour.")
        self._take(("address", network_of(address)), self._per_address, f"{self._per_address} an hour for one address")
        self._take(("all",), self._per_hour, f"{self._per_hour} an hour for everybody together")

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A few are made at a time, in the order they were asked for, so that each is soon done."""
        if self._queue_length >= _MAX_QUEUE_LENGTH:
            raise Unavailable("Too many databases are being made at this moment. Try again in a few seconds.")
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
