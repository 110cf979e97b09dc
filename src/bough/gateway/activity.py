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
from bough.gateway.plane import Away, Plane, PoolUse, Report, Used
from bough.gateway.remembering import Remembering
from bough.ids import EndpointId

EVERY = 1.0  # seconds
HINT = "hint"  # what control says, and waits for
_EVEN_WHEN_QUIET = 10  # beats

logger = log.get(room="gateway")


class Tally:
    __slots__ = ("bytes_in", "bytes_out", "connections", "opened", "read_only_hint")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.opened = 0
        self.connections = 0
        self.read_only_hint = b""  # for clients who cannot write, connected before or after; empty: there is room

    def taken(self, endpoint: EndpointId, pool: PoolUse | None) -> Used:
        """What there is since the last time; counting begins anew."""
        used = Used(
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


class Activity:
    def __init__(self, plane: Plane, remembering: Remembering) -> None:
        self._plane = plane
        self._remembering = remembering
        self._tallies: dict[EndpointId, Tally] = {}
        self._worker = str(uuid.uuid4())
        self._sequence = 0
        self._unheard: Report | None = None
        self._telling = asyncio.Lock()
        self._pools: dict[EndpointId, PoolUse] = {}  # as they were told
        self.pool_use: Callable[[EndpointId], PoolUse | None] = lambda _: None

    @contextmanager
    def connection(self, endpoint: EndpointId, hint: str | None = None) -> Iterator[Tally]:
        tally = self._tallies.setdefault(endpoint, Tally())
        tally.read_only_hint = _encoded(hint)
        tally.opened += 1
        tally.connections += 1
        try:
            yield tally
        finally:
            tally.connections -= 1

    async def from_control(self, body: Any) -> bool:
        """Hints by endpoint; what was remembered of these endpoints has older ones."""
        for name, hint in body.items():
            if tally := self._tallies.get(EndpointId(name)):
                tally.read_only_hint = _encoded(hint)
        self._remembering.drop(EndpointId(name) for name in body)
        return True

    @property
    def connections(self) -> int:
        return sum(tally.connections for tally in self._tallies.values())

    async def keep_reporting(self) -> None:
        """Until cancelled."""
        beat = 0
        while True:
            await asyncio.sleep(EVERY)
            beat += 1
            await self.report(even_when_quiet=beat % _EVEN_WHEN_QUIET == 0)

    async def report(self, *, even_when_quiet: bool = False) -> None:
        async with self._telling:
            if self._unheard is None:
                self._unheard = self._next(even_when_quiet)
            if self._unheard is not None:
                await self._tell(self._unheard)

    async def _tell(self, report: Report) -> None:
        try:
            changed = await self._plane.report(report)
        except Away:
            return  # it is told again at the next beat
        except PlatformError as error:
            logger.error("report_refused", error=error.public)
            return
        self._unheard = None
        self._remembering.drop(changed)

    def _next(self, even_when_quiet: bool) -> Report | None:
        used = [tally.taken(endpoint, self.pool_use(endpoint)) for endpoint, tally in self._tallies.items()]
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
        return Report(worker=self._worker, sequence=self._sequence, endpoints=told)


def _encoded(hint: str | None) -> bytes:
    """As a field of a message, in any encoding that a client may have."""
    return (hint or "").encode("ascii", "replace").replace(b"\0", b"")
