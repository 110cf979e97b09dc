"""Endpoint activity that gateway workers report: counted once, and kept for the tasks that use it.

A report carries its worker's id and a sequence number. The last number of each worker is stored in the same
transaction as its counts, so a repeated report is not counted again, even after a restart of control.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bough import clock
from bough.control.gateway import metrics
from bough.domain.gateway_reports import EndpointReport
from bough.domain.pooler import PoolStats
from bough.domain.usage import EndpointTraffic
from bough.ids import EndpointId
from bough.store.store import Store

_WORKER_TIMEOUT_SECONDS = 60.0  # a worker that reports nothing for so long has died with its connections


@dataclass(slots=True)
class _Worker:
    last_report_at: float
    connections: dict[EndpointId, int] = field(default_factory=dict)
    pools: dict[EndpointId, PoolStats | None] = field(default_factory=dict)
    sequence: int = -1
    changed: set[EndpointId] = field(default_factory=set)
    reply: frozenset[EndpointId] = frozenset()


class EndpointActivity:
    def __init__(self, store: Store) -> None:
        self.started_at = clock.now()
        self._store = store
        self._workers: dict[str, _Worker] = {}
        self._unread: set[EndpointId] = set()
        self._unmeasured: set[EndpointId] = set()
        self._served: set[EndpointId] = set()
        self._requested_at: dict[EndpointId, datetime] = {}
        self._used_at: dict[EndpointId, float] = {}  # last reported use, by the monotonic clock

    async def report(self, worker: str, sequence: int, reports: Collection[EndpointReport]) -> frozenset[EndpointId]:
        """Count a report once, and return the endpoints that have changed since the worker's last report."""
        if reports:
            await self._count(worker, sequence, reports)
        known = self._record_heartbeat(worker)
        if sequence > known.sequence:
            known.sequence = sequence
            known.reply, known.changed = frozenset(known.changed), set()
            known.connections |= {each.endpoint: each.connections for each in reports}
            known.pools |= {each.endpoint: None if each.pool is None else each.pool.stats for each in reports}
        in_use = {each.endpoint for each in reports if each.is_active}
        self._used_at.update(dict.fromkeys(in_use, clock.monotonic()))
        self._unread |= in_use
        self._unmeasured |= in_use
        self._served |= {each.endpoint for each in reports if each.bytes_out}
        return known.reply

    async def _count(self, worker: str, sequence: int, reports: Collection[EndpointReport]) -> None:
        now = clock.now()
        async with self._store.transaction(durable=False) as rows:
            if not await rows.gateway_workers.record_report(worker, sequence, now):
                return
            # Always in this order, endpoints before their usage, to avoid deadlocks.
            for each in sorted(reports, key=lambda each: each.endpoint):
                if each.is_active:
                    await rows.endpoints.record_activity(each.endpoint, now)
                await rows.usage.add_traffic(_to_traffic(each))
        metrics.count_traffic(reports)
        for each in reports:
            if each.pool is not None:
                metrics.count_pool_waits(each.endpoint, each.pool.waits, each.pool.waited_seconds)

    def mark_requested(self, endpoint: EndpointId) -> None:
        """Record that a gateway was given the endpoint's address, so a client is about to connect."""
        self._requested_at[endpoint] = clock.now()
        self._used_at[endpoint] = clock.monotonic()
        self._unread.add(endpoint)

    def invalidate(self, endpoint: EndpointId) -> None:
        """Tell the workers, with the reply to their next report, to drop cached access replies about it."""
        for worker in self._workers.values():
            worker.changed.add(endpoint)

    def mark_unread(self, endpoints: Iterable[EndpointId] = ()) -> None:
        """Request that the contents of these endpoints are read."""
        self._unread.update(endpoints)

    def take_unread(self) -> set[EndpointId]:
        """Return the endpoints used since their contents were last read."""
        unread, self._unread = self._unread, set()
        return unread

    def mark_unmeasured(self, endpoints: Iterable[EndpointId]) -> None:
        """Request that the storage of these endpoints is measured."""
        self._unmeasured.update(endpoints)

    @property
    def has_unmeasured(self) -> bool:
        return bool(self._unmeasured)

    def take_unmeasured(self) -> set[EndpointId]:
        """Return the endpoints used since their storage was last measured."""
        unmeasured, self._unmeasured = self._unmeasured, set()
        return unmeasured

    def take_with_outgoing_traffic(self) -> set[EndpointId]:
        """Return the endpoints that have sent bytes to clients since the last call."""
        served, self._served = self._served, set()
        return served

    def was_used_since(self, endpoint: EndpointId, moment: float) -> bool:
        """Whether a client used or requested the endpoint after `moment` of the monotonic clock."""
        return self._used_at.get(endpoint, moment) > moment

    def last_requested_at(self, endpoint: EndpointId) -> datetime:
        """Never before our start: while control was down no gateway could request an endpoint."""
        return self._requested_at.get(endpoint, self.started_at)

    def prune_requested(self, before: datetime) -> None:
        self._requested_at = {endpoint: at for endpoint, at in self._requested_at.items() if at >= before}
        seconds = (clock.now() - before).total_seconds()
        self._used_at = {endpoint: at for endpoint, at in self._used_at.items() if clock.monotonic() - at < seconds}

    @property
    def connections(self) -> Mapping[str, int]:
        """Open connections by endpoint, over all workers."""
        total: dict[str, int] = {}
        for worker in self._live_workers():
            for endpoint, count in worker.connections.items():
                total[endpoint] = total.get(endpoint, 0) + count
        return {endpoint: count for endpoint, count in total.items() if count}

    @property
    def pools(self) -> Mapping[EndpointId, PoolStats]:
        """Pool statistics by endpoint, over all workers."""
        total: dict[EndpointId, PoolStats] = {}
        for worker in self._live_workers():
            for endpoint, stats in worker.pools.items():
                if stats is not None:
                    total[endpoint] = total.get(endpoint, PoolStats()) + stats
        return total

    def _record_heartbeat(self, worker: str) -> _Worker:
        now = clock.monotonic()
        self._workers = {
            name: each for name, each in self._workers.items() if now - each.last_report_at < _WORKER_TIMEOUT_SECONDS
        }
        known = self._workers.setdefault(worker, _Worker(now))
        known.last_report_at = now
        return known

    def _live_workers(self) -> list[_Worker]:
        now = clock.monotonic()
        return [worker for worker in self._workers.values() if now - worker.last_report_at < _WORKER_TIMEOUT_SECONDS]


def _to_traffic(report: EndpointReport) -> EndpointTraffic:
    return EndpointTraffic(
        endpoint_id=report.endpoint,
        bytes_in=report.bytes_in,
        bytes_out=report.bytes_out,
        connections_opened=report.opened,
        private_in=min(report.private_in, report.bytes_in),
        private_out=min(report.private_out, report.bytes_out),
    )
