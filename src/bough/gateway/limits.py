"""Limits failed logins, by client and by endpoint.

An attempt is counted before its password is verified and uncounted if it was right, so concurrent logins cannot
guess more often than sequential ones. A login that ends without an answer counts as failed. Each worker counts
for itself, under the keys of `client_origin`.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from bough import clock
from bough.errors import RateLimitExceeded
from bough.ids import EndpointId

WINDOW_SECONDS = 60.0
MAX_FAILURES_PER_CLIENT = 30  # by one client at one endpoint, in a window
MAX_FAILED_ENDPOINTS_PER_CLIENT = 60  # endpoints where one client failed
MAX_FAILURES_PER_ENDPOINT = 120  # by all clients
_MAX_KEYS = 50_000

K = TypeVar("K", bound=Hashable)


class AttemptCounter(Generic[K]):
    """Counts attempts per key in the current window."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: OrderedDict[K, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: K) -> bool:
        """Count an attempt; return whether it is the first in its window."""
        now = clock.monotonic()
        started_at, count = self._counts.pop(key, (now, 0))
        is_first = not count or now - started_at > WINDOW_SECONDS
        self._counts[key] = (now, 1) if is_first else (started_at, count + 1)
        if len(self._counts) > _MAX_KEYS:
            self._counts.popitem(last=False)
        return is_first

    def remove(self, key: K) -> bool:
        """Uncount an attempt; return whether it was the only one."""
        started_at, count = self._counts.get(key, (0.0, 0))
        if count > 1:
            self._counts[key] = started_at, count - 1
        else:
            self._counts.pop(key, None)
        return count == 1

    def has_attempts(self, key: K) -> bool:
        started_at, count = self._counts.get(key, (0.0, 0))
        return count > 0 and clock.monotonic() - started_at <= WINDOW_SECONDS

    def retry_after(self, key: K) -> float:
        """Return the seconds until the next attempt is allowed, or 0."""
        started_at, count = self._counts.get(key, (0.0, 0))
        remaining = started_at + WINDOW_SECONDS - clock.monotonic()
        return remaining if count >= self._limit and remaining > 0 else 0.0


class LoginLimits:
    """A client that has logged in to an endpoint before is limited there only by its own failures."""

    def __init__(self) -> None:
        self._by_client: AttemptCounter[tuple[str, EndpointId]] = AttemptCounter(MAX_FAILURES_PER_CLIENT)
        self._failed_endpoints: AttemptCounter[str] = AttemptCounter(MAX_FAILED_ENDPOINTS_PER_CLIENT)
        self._by_endpoint: AttemptCounter[EndpointId] = AttemptCounter(MAX_FAILURES_PER_ENDPOINT)
        self._trusted: OrderedDict[tuple[str, EndpointId], None] = OrderedDict()

    def check(self, limit_key: str, endpoint: EndpointId) -> None:
        pair = limit_key, endpoint
        wait = self._by_client.retry_after(pair)
        if not wait and pair not in self._trusted:
            wait = self._by_endpoint.retry_after(endpoint)
            if not wait and not self._by_client.has_attempts(pair):
                wait = self._failed_endpoints.retry_after(
                    limit_key
                )  # a client that guesses at one endpoint after another
        if wait:
            raise RateLimitExceeded(f"Too many failed logins; try again in {wait:.0f} seconds.", wait)

    def count_attempt(self, limit_key: str, endpoint: EndpointId) -> None:
        """Count an attempt that is about to be verified; raise if there were too many."""
        self.check(limit_key, endpoint)
        self.record_failure(limit_key, endpoint)

    def record_failure(self, limit_key: str, endpoint: EndpointId) -> None:
        if self._by_client.add((limit_key, endpoint)):
            self._failed_endpoints.add(limit_key)
        self._by_endpoint.add(endpoint)

    def record_success(self, limit_key: str, endpoint: EndpointId) -> None:
        """Uncount the last attempt: its password was right."""
        pair = limit_key, endpoint
        if self._by_client.remove(pair):
            self._failed_endpoints.remove(limit_key)
        self._by_endpoint.remove(endpoint)
        self._trusted[pair] = None
        self._trusted.move_to_end(pair)
        if len(self._trusted) > _MAX_KEYS:
            self._trusted.popitem(last=False)


class LoginAttempt:
    """One login, counted once: when it is verified, or when it ends without an answer to our challenge."""

    __slots__ = ("_endpoint", "_is_challenged", "_is_counted", "_limit_key", "_limits")

    def __init__(self, limits: LoginLimits, limit_key: str, endpoint: EndpointId) -> None:
        self._limits = limits
        self._limit_key = limit_key
        self._endpoint = endpoint
        self._is_challenged = False
        self._is_counted = False
        limits.check(limit_key, endpoint)

    def mark_challenged(self) -> None:
        """The client was sent a challenge."""
        self._is_challenged = True

    def count(self) -> None:
        """Must be called before the password is verified; raises if other attempts have reached a limit."""
        self._is_challenged = False
        self._limits.count_attempt(self._limit_key, self._endpoint)
        self._is_counted = True

    def record_success(self) -> None:
        if self._is_counted:
            self._limits.record_success(self._limit_key, self._endpoint)

    def close(self) -> None:
        if self._is_challenged:
            self._limits.record_failure(self._limit_key, self._endpoint)
