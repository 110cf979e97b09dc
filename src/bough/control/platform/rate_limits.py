"""Rate limits: token buckets, in this process.

A key, or somebody who signed in, has one bucket for all requests and one per route; callers whom we do not know share
one per address.
"""

from bough.config import Settings
from bough.errors import RateLimitExceeded
from bough.token_buckets import TokenBuckets


class RateLimiter:
    def __init__(self, settings: Settings) -> None:
        self._per_key = settings.rate_per_minute
        self._per_route = settings.rate_per_second_and_route
        self._per_address = settings.rate_per_minute_and_address
        self._guesses = f"{self._per_address} wrong keys a minute"
        self._buckets = TokenBuckets()

    def take(self, caller: int | str, route: str) -> None:
        """By the number of a key, or the user of a session."""
        self._take(("caller", caller), self._per_key, self._per_key / 60, f"{self._per_key} requests a minute")
        self._take(("route", caller, route), self._per_route, self._per_route, f"{self._per_route} requests a second")

    def take_address(self, address: str) -> None:
        limit = f"{self._per_address} requests a minute without a valid key"
        self._take(("address", address), self._per_address, self._per_address / 60, limit)

    def check_key_guesses(self, address: str, public: str) -> None:
        """Before a key that fits is believed: whoever guessed too often at its secret part learns no more."""
        if wait := self._buckets.seconds_until_token(("guesses", address, public)):
            raise _exceeded(self._guesses, wait)

    def record_wrong_key(self, address: str, public: str) -> None:
        """By the public part of the key, so that guesses at one key do not hold up others of the same address."""
        if public:
            self._take(("guesses", address, public), self._per_address, self._per_address / 60, self._guesses)
        self.take_address(address)

    def _take(self, name: tuple[str | int, ...], size: float, per_second: float, limit: str) -> None:
        if wait := self._buckets.take(name, size, per_second):
            raise _exceeded(limit, wait)


def _exceeded(limit: str, wait: float) -> RateLimitExceeded:
    return RateLimitExceeded(f"Too many requests: the limit is {limit}. Try again in {max(wait, 0.1):.1f} s.", wait)
