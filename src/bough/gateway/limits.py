"""How many wrong passwords a client may send, and where.

An attempt is counted before it is judged and given back when it was right, so logins that run side by side
cannot guess more often than one after another. A login that ends without an answer counts like a wrong
one. Counted by each worker for itself, under the keys of `peer.py`.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from bough import clock
from bough.errors import RateLimitExceeded
from bough.ids import EndpointId

WINDOW_SECONDS = 60.0  # seconds
MAX_FAILURES_PER_CLIENT = 30  # of one client at one endpoint, in a window
MAX_FAILED_ENDPOINTS_PER_CLIENT = 60  # endpoints at which one client failed
MAX_FAILURES_PER_ENDPOINT = 120  # of all clients together
_MOST = 50_000  # keys that are remembered

K = TypeVar("K", bound=Hashable)


class AttemptCounter(Generic[K]):
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
        is_first = not count or now - began > WINDOW_SECONDS
        self._counts[key] = (now, 1) if is_first else (began, count + 1)
        if len(self._counts) > _MOST:
            self._counts.popitem(last=False)
        return is_first

    def remove(self, key: K) -> bool:
        """One less; whether it was the only one."""
        began, count = self._counts.get(key, (0.0, 0))
        if count > 1:
            self._counts[key] = began, count - 1
        else:
            self._counts.pop(key, None)
        return count == 1

    def has_attempts(self, key: K) -> bool:
        began, count = self._counts.get(key, (0.0, 0))
        return count > 0 and clock.monotonic() - began <= WINDOW_SECONDS

    def retry_after(self, key: K) -> float:
        """Seconds until the next try is allowed; 0 when it is now."""
        began, count = self._counts.get(key, (0.0, 0))
        left = began + WINDOW_SECONDS - clock.monotonic()
        return left if count >= self._limit and left > 0 else 0.0


class LoginLimits:
    """A client that was let in at an endpoint is held up there by nobody's failures but its own."""

    def __init__(self) -> None:
        self._of_client: AttemptCounter[tuple[str, EndpointId]] = AttemptCounter(MAX_FAILURES_PER_CLIENT)
        self._endpoints: AttemptCounter[str] = AttemptCounter(MAX_FAILED_ENDPOINTS_PER_CLIENT)
        self._at_endpoint: AttemptCounter[EndpointId] = AttemptCounter(MAX_FAILURES_PER_ENDPOINT)
        self._trusted: OrderedDict[tuple[str, EndpointId], None] = OrderedDict()

    def check(self, limit_key: str, endpoint: EndpointId) -> None:
        pair = limit_key, endpoint
        wait = self._of_client.retry_after(pair)
        if not wait and pair not in self._trusted:
            wait = self._at_endpoint.retry_after(endpoint)
            if not wait and not self._of_client.has_attempts(pair):
                wait = self._endpoints.retry_after(limit_key)  # guesses at one endpoint after the other
        if wait:
            raise RateLimitExceeded(f"Too many failed logins; try again in {wait:.0f} seconds.", wait)

    def count_attempt(self, limit_key: str, endpoint: EndpointId) -> None:
        """Count an attempt that is about to be judged, or that ended unjudged; raises when there were too many."""
        self.check(limit_key, endpoint)
        self.record_failure(limit_key, endpoint)

    def record_failure(self, limit_key: str, endpoint: EndpointId) -> None:
        if self._of_client.add((limit_key, endpoint)):
            self._endpoints.add(limit_key)
        self._at_endpoint.add(endpoint)

    def record_success(self, limit_key: str, endpoint: EndpointId) -> None:
        """What was taken last was right."""
        pair = limit_key, endpoint
        if self._of_client.remove(pair):
            self._endpoints.remove(limit_key)
        self._at_endpoint.remove(endpoint)
        self._trusted[pair] = None
        self._trusted.move_to_end(pair)
        if len(self._trusted) > _MOST:
            self._trusted.popitem(last=False)


class LoginAttempt:
    """One login. It is counted once: when it is judged, or when it ends unjudged after our challenge."""

    __slots__ = ("_client", "_endpoint", "_is_counted", "_is_open", "_limits")

    def __init__(self, limits: LoginLimits, limit_key: str, endpoint: EndpointId) -> None:
        self._limits = limits
        self._client = limit_key
        self._endpoint = endpoint
        self._is_open = False
        self._is_counted = False
        limits.check(limit_key, endpoint)

    def mark_challenged(self) -> None:
        """The client has been asked for its proof."""
        self._is_open = True

    def count(self) -> None:
        """Before its proof is looked at; raises when others have used up what the client may try."""
        self._is_open = False
        self._limits.count_attempt(self._client, self._endpoint)
        self._is_counted = True

    def record_success(self) -> None:
        if self._is_counted:
            self._limits.record_success(self._client, self._endpoint)

    def close(self) -> None:
        if self._is_open:
            self._limits.record_failure(self._client, self._endpoint)
