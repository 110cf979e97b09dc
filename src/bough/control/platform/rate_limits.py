"""Rate limits of this process, as token buckets.

An API key or a signed-in user has one bucket for all requests and one per route. Callers without a valid key share one
bucket per address. A failed sign-in costs a token; a successful one returns it.
"""

import ipaddress

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


_MINUTE, _HOUR = 60.0, 3600.0


class AttemptLimits:
    def __init__(self) -> None:
        self._buckets = TokenBuckets()

    def take_sign_in(self, address: str, email: str) -> None:
        """By where it comes from, by whom it is for, and by both."""
        place = network_of(address)
        self._take(("sign in from", place), 30, 6 / _MINUTE)
        self._take(("sign in as", email, place), 10, 1 / _MINUTE)
        self._take(("sign in as", email), 60, 1 / _MINUTE)

    def refund_sign_in(self, address: str, email: str) -> None:
        """What it took is given back; of its own account and place, all that was taken before, too."""
        place = network_of(address)
        self._buckets.return_token(("sign in from", place))
        self._buckets.return_token(("sign in as", email))
        self._buckets.reset(("sign in as", email, place))

    def take_mail_request(self, address: str, email: str) -> None:
        """Whatever ends in a mail: to sign up, to reset a password."""
        self._take(("mail from", network_of(address)), 20, 20 / _HOUR)
        self._take(("mail to", email), 5, 5 / _HOUR)

    def take_link_visit(self, address: str) -> None:
        self._take(("link from", network_of(address)), 60, 1.0)

    def _take(self, name: tuple[str, ...], size: float, per_second: float) -> None:
        if wait := self._buckets.take(name, size, per_second):
            raise RateLimitExceeded(f"Too many attempts. Try again in {_in_words(wait)}.", wait)


def network_of(address: str) -> str:
    """One line of the internet has a whole network of addresses in version 6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds > 1 else "a second"
