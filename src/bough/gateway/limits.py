"""How much strangers may ask for: connections before they have proven anything, and wrong passwords.

Counted by each worker for itself. An endpoint under attack still lets in the addresses that were let
in before.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

from bough import clock
from bough.errors import RateExceeded
from bough.ids import EndpointId

WINDOW = 60.0  # seconds
FAILURES_OF_ADDRESS = 30  # in a window
FAILURES_AT_ENDPOINT = 120
NEWCOMERS = 4000  # connections that have not logged in yet
NEWCOMERS_OF_ADDRESS = 2000
_MOST = 50_000  # keys that are remembered


class Tries:
    """How often something happened in the current window, by key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, key: str) -> None:
        now = clock.monotonic()
        began, count = self._counts.pop(key, (now, 0))
        self._counts[key] = (now, 1) if now - began > WINDOW else (began, count + 1)
        if len(self._counts) > _MOST:
            self._counts.popitem(last=False)

    def wait(self, key: str) -> float:
        """Seconds until the next try is allowed; 0 when it is now."""
        began, count = self._counts.get(key, (0.0, 0))
        left = began + WINDOW - clock.monotonic()
        return left if count >= self._limit and left > 0 else 0.0


class Limits:
    def __init__(self) -> None:
        self._of_address = Tries(FAILURES_OF_ADDRESS)
        self._at_endpoint = Tries(FAILURES_AT_ENDPOINT)
        self._friends: OrderedDict[tuple[str, EndpointId], None] = OrderedDict()
        self._newcomers: dict[str, int] = {}
        self._all_newcomers = 0

    @contextmanager
    def newcomer(self, address: str | None) -> Iterator[None]:
        """For the time before somebody has logged in; local clients share one count."""
        key = _group(address)
        count = self._newcomers.get(key, 0)
        if self._all_newcomers >= NEWCOMERS or count >= NEWCOMERS_OF_ADDRESS:
            raise RateExceeded("Too many clients are logging in at this moment; try again.", 1.0)
        self._newcomers[key] = count + 1
        self._all_newcomers += 1
        try:
            yield
        finally:
            self._all_newcomers -= 1
            self._newcomers[key] -= 1
            if not self._newcomers[key]:
                del self._newcomers[key]

    def check(self, address: str | None, endpoint: EndpointId) -> None:
        group = _group(address)
        wait = self._of_address.wait(group)
        if not wait and (group, endpoint) not in self._friends:
            wait = self._at_endpoint.wait(endpoint)
        if wait:
            raise RateExceeded(f"Too many failed logins; try again in {wait:.0f} seconds.", wait)

    def failed(self, address: str | None, endpoint: EndpointId) -> None:
        self._of_address.add(_group(address))
        self._at_endpoint.add(endpoint)

    def passed(self, address: str | None, endpoint: EndpointId) -> None:
        self._friends[_group(address), endpoint] = None
        self._friends.move_to_end((_group(address), endpoint))
        if len(self._friends) > _MOST:
            self._friends.popitem(last=False)


def _group(address: str | None) -> str:
    """A network of IPv6 counts as one: its owner has all addresses in it."""
    if address is None:
        return "local"
    place = ip_address(address)
    if place.version == 6 and not place.is_loopback:
        return str(place.exploded[:19])  # the first 64 bits
    return address
