"""Counts the running time and size of computes every ten seconds, and all usage into the consumption history.

A crash loses at most ten seconds of running time. Computes keep running while control is down; that time is counted
after control restarts. Running time is split exactly at the border of an hour; other usage counts for the hour in
which it was counted.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bough import clock
from bough.control.consumption import counting
from bough.domain.consumption import Granularity
from bough.engine.port import EngineInspection, Observation
from bough.store.store import Rows, Store
from bough.store.usage import MeteredCompute

COUNT_INTERVAL = timedelta(seconds=30)
MAX_BORDERS = 31 * 24  # a longer time than that is not split
_RECENT = timedelta(seconds=60)  # until so long after a border, all that is uncounted was used before it
_TICK = timedelta(microseconds=1)


class CountUsage:
    interval = 10.0

    def __init__(self, store: Store, engine: EngineInspection) -> None:
        self._store = store
        self._engine = engine
        self._counted_at: datetime | None = None

    async def run(self) -> str:
        observed = await self._engine.observe()
        now = clock.now()
        async with self._store.read() as rows:
            metered = await rows.usage.list_metered()
        known = [self._counted_at] if self._counted_at else []
        for border in list_borders([each.counted_at for each in metered] + known, now):
            async with self._store.transaction(durable=False) as rows:
                due = [each for each in await rows.usage.list_metered() if each.counted_at < border]
                await self._add_running_time(rows, observed, due, border)
                await counting.count(rows, border - _TICK, only_time=now - border > _RECENT)
        if metered:
            async with self._store.transaction(durable=False) as rows:
                await self._add_running_time(rows, observed, await rows.usage.list_metered(), now)
        if self._counted_at is None or not timedelta(0) <= now - self._counted_at < COUNT_INTERVAL:
            async with self._store.transaction(durable=False) as rows:
                await counting.count(rows, now)
            self._counted_at = now
        return ""

    @staticmethod
    async def _add_running_time(
        rows: Rows, observed: Observation, computes: Sequence[MeteredCompute], until: datetime
    ) -> None:
        running, sizes = observed.running_endpoints, observed.cu_by_endpoint
        await rows.usage.add_running_time(computes, until, running=running, sizes=sizes)


def list_borders(counted_at: Sequence[datetime], now: datetime) -> list[datetime]:
    """Return the hours that began since the last counts."""
    borders: list[datetime] = []
    hour = Granularity.HOURLY.start_of(now)
    earliest = min(counted_at, default=now)
    while hour > earliest and len(borders) < MAX_BORDERS:
        borders.append(hour)
        hour -= timedelta(hours=1)
    return borders[::-1]
