"""What gateways tell about the use of endpoints: counted once, and remembered for the tasks that ask.

A report carries its worker and a number. The last number of each worker is written with what it reported,
so a report that comes again, also after our own restart, is not counted again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bough import clock
from bough.control.gateway import metrics
from bough.domain.pooler import PoolStats
from bough.domain.usage import EndpointTraffic
from bough.ids import EndpointId
from bough.store.store import Store

_FORGOTTEN_AFTER = 60.0  # seconds without a word from a worker: it is gone, and its connections with it


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport:
    """One endpoint in a report."""

    traffic: EndpointTraffic
    connections: int  # open now
    is_active: bool  # bytes moved or a connection was opened since the report before
    pool: PoolStats | None = None  # None: nobody is at its pools
    pool_waits: int = 0  # for a server connection, since the report before
    pool_wait_seconds: float = 0.0


@dataclass(slots=True)
class _Worker:
    heard: float
    connections: dict[EndpointId, int] = field(default_factory=dict)
    pools: dict[EndpointId, PoolStats | None] = field(default_factory=dict)
    sequence: int = -1
    changed: set[EndpointId] = field(default_factory=set)
    answer: frozenset[EndpointId] = frozenset()


class EndpointActivity:
    def __init__(self, store: Store) -> None:
        self.started_at = clock.now()
        self._store = store
        self._workers: dict[str, _Worker] = {}
        self._unread: set[EndpointId] = set()
        self._unmeasured: set[EndpointId] = set()
        self._served: set[EndpointId] = set()
        self._wanted: dict[EndpointId, datetime] = {}
        self._used: dict[EndpointId, float] = {}  # when a gateway last told of its use, by the monotonic clock

    async def report(self, worker: str, sequence: int, reports: Collection[EndpointReport]) -> frozenset[EndpointId]:
        """Count it, once. The answer: endpoints of which something changed since the worker's last report."""
        if reports:
            await self._count(worker, sequence, reports)
        known = self._record_heartbeat(worker)
        if sequence > known.sequence:
            known.sequence = sequence
            known.answer, known.changed = frozenset(known.changed), set()
            known.connections |= {each.traffic.endpoint_id: each.connections for each in reports}
            known.pools |= {each.traffic.endpoint_id: each.pool for each in reports}
        in_use = {each.traffic.endpoint_id for each in reports if each.is_active}
        self._used.update(dict.fromkeys(in_use, clock.monotonic()))
        self._unread |= in_use
        self._unmeasured |= in_use
        self._served |= {each.traffic.endpoint_id for each in reports if each.traffic.bytes_out}
        return known.answer

    async def _count(self, worker: str, sequence: int, told: Collection[EndpointReport]) -> None:
        now = clock.now()
        async with self._store.transaction(durable=False) as rows:
            if not await rows.gateway_workers.record_report(worker, sequence, now):
                return
            # In one order, and endpoints before their usage, as everywhere: no deadlock.
            for each in sorted(told, key=lambda each: each.traffic.endpoint_id):
                if each.is_active:
                    await rows.endpoints.record_activity(each.traffic.endpoint_id, now)
                await rows.usage.add_traffic(each.traffic)
        metrics.count_traffic(each.traffic for each in told)
        for each in told:
            if each.pool is not None:
                metrics.count_pool_waits(each.traffic.endpoint_id, each.pool_waits, each.pool_wait_seconds)

    def mark_requested(self, endpoint: EndpointId) -> None:
        """Somebody was told where it is, and is on the way to it."""
        self._wanted[endpoint] = clock.now()
        self._used[endpoint] = clock.monotonic()
        self._unread.add(endpoint)

    def invalidate(self, endpoint: EndpointId) -> None:
        """What gateways remember of it is not true any more."""
        for worker in self._workers.values():
            worker.changed.add(endpoint)

    def mark_unread(self, endpoints: Iterable[EndpointId] = ()) -> None:
        """What is in these is to be read."""
        self._unread.update(endpoints)

    def take_unread(self) -> set[EndpointId]:
        """Endpoints that were in use since they were read last."""
        unread, self._unread = self._unread, set()
        return unread

    def mark_unmeasured(self, endpoints: Iterable[EndpointId]) -> None:
        """What is stored in these is to be measured."""
        self._unmeasured.update(endpoints)

    @property
    def has_unmeasured(self) -> bool:
        return bool(self._unmeasured)

    def take_unmeasured(self) -> set[EndpointId]:
        """Endpoints that were in use since it was measured last what is stored in them."""
        unmeasured, self._unmeasured = self._unmeasured, set()
        return unmeasured

    def take_served(self) -> set[EndpointId]:
        """Endpoints whose clients got something since this was asked for last."""
        served, self._served = self._served, set()
        return served

    def was_used_since(self, endpoint: EndpointId, moment: float) -> bool:
        """Whether a client used it, or came to it, after that moment of the monotonic clock."""
        return self._used.get(endpoint, moment) > moment

    def last_requested_at(self, endpoint: EndpointId) -> datetime:
        """Not before our own start: while we were away nobody could tell us."""
        return self._wanted.get(endpoint, self.started_at)

    def prune_requested(self, before: datetime) -> None:
        self._wanted = {endpoint: at for endpoint, at in self._wanted.items() if at >= before}
        seconds = (clock.now() - before).total_seconds()
        self._used = {endpoint: at for endpoint, at in self._used.items() if clock.monotonic() - at < seconds}

    @property
    def connections(self) -> Mapping[str, int]:
        """Open ones at each endpoint, over all workers."""
        total: dict[str, int] = {}
        for worker in self._live_workers():
            for endpoint, count in worker.connections.items():
                total[endpoint] = total.get(endpoint, 0) + count
        return {endpoint: count for endpoint, count in total.items() if count}

    @property
    def pools(self) -> Mapping[EndpointId, PoolStats]:
        """Who is at the pools of each endpoint that has some, over all workers."""
        total: dict[EndpointId, PoolStats] = {}
        for worker in self._live_workers():
            for endpoint, now in worker.pools.items():
                if now is not None:
                    total[endpoint] = total.get(endpoint, PoolStats()) + now
        return total

    def _record_heartbeat(self, worker: str) -> _Worker:
        now = clock.monotonic()
        self._workers = {name: each for name, each in self._workers.items() if now - each.heard < _FORGOTTEN_AFTER}
        known = self._workers.setdefault(worker, _Worker(now))
        known.heard = now
        return known

    def _live_workers(self) -> list[_Worker]:
        now = clock.monotonic()
        return [worker for worker in self._workers.values() if now - worker.heard < _FORGOTTEN_AFTER]
