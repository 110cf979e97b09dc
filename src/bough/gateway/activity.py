"""What each endpoint was used for, counted as it happens and reported to control.

A report is repeated until control has it, with the same number, so it counts exactly once; a worker that
is killed loses what it counted since the last one.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bough import log
from bough.errors import PlatformError
from bough.gateway.cache import ControlCache
from bough.gateway.control_plane import ActivityReport, ControlPlane, ControlUnavailable, EndpointReport, PoolReport
from bough.ids import EndpointId

REPORT_INTERVAL_SECONDS = 1.0  # seconds
HINT_REQUEST = "hint"  # what control says, and waits for
_IDLE_REPORT_INTERVALS = 10  # beats

logger = log.get_logger(component="gateway")


class TrafficCounters:
    __slots__ = ("bytes_in", "bytes_out", "connections", "opened", "read_only_hint")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.opened = 0
        self.connections = 0
        self.read_only_hint = b""  # for clients who cannot write, connected before or after; empty: there is room

    def take_activity(self, endpoint: EndpointId, pool: PoolReport | None) -> EndpointReport:
        """What there is since the last time; counting begins anew."""
        used = EndpointReport(
            endpoint=endpoint,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            opened=self.opened,
            connections=self.connections,
            is_active=bool(self.bytes_in or self.bytes_out or self.opened),
            pool=pool,
        )
        self.bytes_in = self.bytes_out = self.opened = 0
        return used


class ActivityReporter:
    def __init__(self, control_plane: ControlPlane, cache: ControlCache) -> None:
        self._plane = control_plane
        self._remembering = cache
        self._tallies: dict[EndpointId, TrafficCounters] = {}
        self._worker = str(uuid.uuid4())
        self._sequence = 0
        self._unacknowledged: ActivityReport | None = None
        self._report_lock = asyncio.Lock()
        self._pools: dict[EndpointId, PoolReport] = {}  # as they were told
        self.get_pool_stats: Callable[[EndpointId], PoolReport | None] = lambda _: None

    @contextmanager
    def track_connection(self, endpoint: EndpointId, hint: str | None = None) -> Iterator[TrafficCounters]:
        tally = self._tallies.setdefault(endpoint, TrafficCounters())
        tally.read_only_hint = _encoded(hint)
        tally.opened += 1
        tally.connections += 1
        try:
            yield tally
        finally:
            tally.connections -= 1

    async def handle_hints(self, body: Any) -> bool:
        """Hints by endpoint; what was remembered of these endpoints has older ones."""
        for name, hint in body.items():
            if tally := self._tallies.get(EndpointId(name)):
                tally.read_only_hint = _encoded(hint)
        self._remembering.invalidate(EndpointId(name) for name in body)
        return True

    @property
    def connections(self) -> int:
        return sum(tally.connections for tally in self._tallies.values())

    async def run(self) -> None:
        """Until cancelled."""
        beat = 0
        while True:
            await asyncio.sleep(REPORT_INTERVAL_SECONDS)
            beat += 1
            await self.report(include_idle=beat % _IDLE_REPORT_INTERVALS == 0)

    async def report(self, *, include_idle: bool = False) -> None:
        async with self._report_lock:
            if self._unacknowledged is None:
                self._unacknowledged = self._next(include_idle)
            if self._unacknowledged is not None:
                await self._send(self._unacknowledged)

    async def _send(self, report: ActivityReport) -> None:
        try:
            changed = await self._plane.report(report)
        except ControlUnavailable:
            return  # it is told again at the next beat
        except PlatformError as error:
            logger.error("report_refused", error=error.public_message)
            return
        self._unacknowledged = None
        self._remembering.invalidate(changed)

    def _next(self, even_when_quiet: bool) -> ActivityReport | None:
        used = [
            tally.take_activity(endpoint, self.get_pool_stats(endpoint)) for endpoint, tally in self._tallies.items()
        ]
        pools = {each.endpoint: each.pool for each in used if each.pool is not None}
        changed = {endpoint for endpoint, use in pools.items() if use != self._pools.get(endpoint)}
        self._pools = pools
        # One that has no connection is told of once more, with none, and then forgotten.
        for each in used:
            if not each.connections and not each.is_active:
                del self._tallies[each.endpoint]
        told = [
            each
            for each in used
            if each.is_active or not each.connections or even_when_quiet or each.endpoint in changed
        ]
        if not told and not even_when_quiet:
            return None
        self._sequence += 1
        return ActivityReport(worker=self._worker, sequence=self._sequence, endpoints=told)


def _encoded(hint: str | None) -> bytes:
    """As a field of a message, in any encoding that a client may have."""
    return (hint or "").encode("ascii", "replace").replace(b"\0", b"")
