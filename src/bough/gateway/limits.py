"""How many wrong passwords a client may send, and where.

An attempt is counted before it is judged and given back when it was right, so logins that run side by side
cannot guess more often than one after another. A login that ends without an answer counts like a wrong
one. Counted by each worker for itself, under the keys of `peer.py`.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from bough import clock
from bough.errors import RateExceeded
from bough.ids import EndpointId

WINDOW = 60.0  # seconds
FAILURES_OF_CLIENT = 30  # of one client at one endpoint, in a window
ENDPOINTS_OF_CLIENT = 60  # endpoints at which one client failed
FAILURES_AT_ENDPOINT = 120  # of all clients together
_MOST = 50_000  # keys that are remembered

K = TypeVar("K", bound=Hashable)


class Tries(Generic[K]):
    """How often something happened in the current window, by key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: OrderedDict[K, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: K) -> bool:
        """Whether it is the first in its window."""
        now = clock.monotonic()
        began, count = self._counts.pop(key, (now, 0))
        is_first = not count or now - began > WINDOW
        self._counts[key] = (now, 1) if is_first else (began, count + 1)
        if len(self._counts) > _MOST:
            self._counts.popitem(last=False)
        return is_first

    def give_back(self, key: K) -> bool:
        """One less; whether it was the only one."""
        began, count = self._counts.get(key, (0.0, 0))
        if count > 1:
            self._counts[key] = began, count - 1
        else:
            self._counts.pop(key, None)
        return count == 1

    def has(self, key: K) -> bool:
        began, count = self._counts.get(key, (0.0, 0))
        return count > 0 and clock.monotonic() - began <= WINDOW

    def wait(self, key: K) -> float:
        """Seconds until the next try is allowed; 0 when it is now."""
        began, count = self._counts.get(key, (0.0, 0))
        left = began + WINDOW - clock.monotonic()
        return left if count >= self._limit and left > 0 else 0.0


class Limits:
    """A client that was let in at an endpoint is held up there by nobody's failures but its own."""

    def __init__(self) -> None:
        self._of_client: Tries[tuple[str, EndpointId]] = Tries(FAILURES_OF_CLIENT)
        self._endpoints: Tries[str] = Tries(ENDPOINTS_OF_CLIENT)
        self._at_endpoint: Tries[EndpointId] = Tries(FAILURES_AT_ENDPOINT)
        self._friends: OrderedDict[tuple[str, EndpointId], None] = OrderedDict()

    def check(self, client: str, endpoint: EndpointId) -> None:
        pair = client, endpoint
        wait = self._of_client.wait(pair)
        if not wait and pair not in self._friends:
            wait = self._at_endpoint.wait(endpoint)
            if not wait and not self._of_client.has(pair):
                wait = self._endpoints.wait(client)  # guesses at one endpoint after the other
        if wait:
            raise RateExceeded(f"Too many failed logins; try again in {wait:.0f} seconds.", wait)

    def take(self, client: str, endpoint: EndpointId) -> None:
        """Count an attempt that is about to be judged, or that ended unjudged; raises when there were too many."""
        self.check(client, endpoint)
        self.failed(client, endpoint)

    def failed(self, client: str, endpoint: EndpointId) -> None:
        if self._of_client.add((client, endpoint)):
            self._endpoints.add(client)
        self._at_endpoint.add(endpoint)

    def passed(self, client: str, endpoint: EndpointId) -> None:
        """What was taken last was right."""
        pair = client, endpoint
        if self._of_client.give_back(pair):
            self._endpoints.give_back(client)
        self._at_endpoint.give_back(endpoint)
        self._friends[pair] = None
        self._friends.move_to_end(pair)
        if len(self._friends) > _MOST:
            self._friends.popitem(last=False)


class Attempt:
    """One login. It is counted once: when it is judged, or when it ends unjudged after our challenge."""

    __slots__ = ("_client", "_endpoint", "_is_counted", "_is_open", "_limits")

    def __init__(self, limits: Limits, client: str, endpoint: EndpointId) -> None:
        self._limits = limits
        self._client = client
        self._endpoint = endpoint
        self._is_open = False
        self._is_counted = False
        limits.check(client, endpoint)

    def begin(self) -> None:
        """The client has been asked for its proof."""
        self._is_open = True

    def judge(self) -> None:
        """Before its proof is looked at; raises when others have used up what the client may try."""
        self._is_open = False
        self._limits.take(self._client, self._endpoint)
        self._is_counted = True

    def passed(self) -> None:
        if self._is_counted:
            self._limits.passed(self._client, self._endpoint)

    def end(self) -> None:
        if self._is_open:
            self._limits.failed(self._client, self._endpoint)
