"""Counts the traffic of each endpoint and reports it to control.

The reporter repeats a report, with the same sequence number, until control has acknowledged it, so control
counts it exactly once. A worker that is killed loses the traffic since its last report.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bough import log
from bough.domain.gateway_reports import ActivityReport, EndpointReport, PoolReport
from bough.errors import PlatformError
from bough.gateway.cache import ControlCache
from bough.gateway.control_plane import ControlPlane, ControlUnavailable
from bough.ids import EndpointId

REPORT_INTERVAL_SECONDS = 1.0
_IDLE_REPORT_INTERVALS = 10  # idle connections are reported in every tenth interval

logger = log.get_logger(component="gateway")


class TrafficCounters:
    __slots__ = ("bytes_in", "bytes_out", "connections", "opened", "read_only_hint")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.opened = 0
        self.connections = 0
        self.read_only_hint = b""  # added to the error of a rejected write; empty: writes are allowed

    def reset(self) -> None:
        self.bytes_in = self.bytes_out = self.opened = 0


class EndpointCounters:
    """Counters of the clients in private networks, if they are counted apart, and of all others."""

    __slots__ = ("other", "private")

    def __init__(self) -> None:
        self.private = TrafficCounters()
        self.other = TrafficCounters()

    @property
    def connections(self) -> int:
        return self.private.connections + self.other.connections

    def set_hint(self, hint: str | None) -> None:
        self.private.read_only_hint = self.other.read_only_hint = _encode_hint(hint)

    def take_activity(self, endpoint: EndpointId, pool: PoolReport | None) -> EndpointReport:
        """Return the counts since the last call and set them to zero."""
        private, other = self.private, self.other
        bytes_in, bytes_out = private.bytes_in + other.bytes_in, private.bytes_out + other.bytes_out
        opened = private.opened + other.opened
        report = EndpointReport(
            endpoint=endpoint,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            private_in=private.bytes_in,
            private_out=private.bytes_out,
            opened=opened,
            connections=self.connections,
            is_active=bool(bytes_in or bytes_out or opened),
            pool=pool,
        )
        private.reset()
        other.reset()
        return report


class ActivityReporter:
    def __init__(self, control_plane: ControlPlane, cache: ControlCache) -> None:
        self._control_plane = control_plane
        self._cache = cache
        self._counters: dict[EndpointId, EndpointCounters] = {}
        self._worker = str(uuid.uuid4())
        self._sequence = 0
        self._unacknowledged: ActivityReport | None = None
        self._report_lock = asyncio.Lock()
        self._reported_pools: dict[EndpointId, PoolReport] = {}
        self.get_pool_stats: Callable[[EndpointId], PoolReport | None] = lambda _: None

    @contextmanager
    def track_connection(
        self, endpoint: EndpointId, hint: str | None = None, *, is_private: bool = False
    ) -> Iterator[TrafficCounters]:
        """Yield the counters of the connection. `is_private`: they are reported apart, too."""
        endpoint_counters = self._counters.setdefault(endpoint, EndpointCounters())
        endpoint_counters.set_hint(hint)
        counters = endpoint_counters.private if is_private else endpoint_counters.other
        counters.opened += 1
        counters.connections += 1
        try:
            yield counters
        finally:
            counters.connections -= 1

    async def handle_hints(self, body: Any) -> bool:
        """Handle control's notification of new hints, for open connections too."""
        for name, hint in body.items():
            if counters := self._counters.get(EndpointId(name)):
                counters.set_hint(hint)
        self._cache.invalidate(EndpointId(name) for name in body)  # cached access replies carry the old hints
        return True

    @property
    def connections(self) -> int:
        return sum(counters.connections for counters in self._counters.values())

    async def run(self) -> None:
        """Report until cancelled."""
        intervals = 0
        while True:
            await asyncio.sleep(REPORT_INTERVAL_SECONDS)
            intervals += 1
            await self.report(include_idle=intervals % _IDLE_REPORT_INTERVALS == 0)

    async def report(self, *, include_idle: bool = False) -> None:
        async with self._report_lock:
            if self._unacknowledged is None:
                self._unacknowledged = self._next_report(include_idle)
            if self._unacknowledged is not None:
                await self._send(self._unacknowledged)

    async def _send(self, report: ActivityReport) -> None:
        try:
            changed = await self._control_plane.report(report)
        except ControlUnavailable:
            return  # the next interval repeats it
        except PlatformError as error:
            logger.error("report_rejected", error=error.public_message)
            return
        self._unacknowledged = None
        self._cache.invalidate(changed)

    def _next_report(self, include_idle: bool) -> ActivityReport | None:
        reports = [
            counters.take_activity(endpoint, self.get_pool_stats(endpoint))
            for endpoint, counters in self._counters.items()
        ]
        pools = {each.endpoint: each.pool for each in reports if each.pool is not None}
        changed = {endpoint for endpoint, pool in pools.items() if pool != self._reported_pools.get(endpoint)}
        self._reported_pools = pools
        # An endpoint without connections is reported once more, with zero connections, and then dropped.
        for each in reports:
            if not each.connections and not each.is_active:
                del self._counters[each.endpoint]
        included = [
            each
            for each in reports
            if each.is_active or not each.connections or include_idle or each.endpoint in changed
        ]
        if not included and not include_idle:
            return None
        self._sequence += 1
        return ActivityReport(worker=self._worker, sequence=self._sequence, endpoints=included)


def _encode_hint(hint: str | None) -> bytes:
    """Encode a hint as ASCII, which is valid in every client encoding."""
    return (hint or "").encode("ascii", "replace").replace(b"\0", b"")
