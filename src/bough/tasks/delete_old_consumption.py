"""Deletes buckets of the consumption history that no request can ask for any more."""

from datetime import timedelta

from bough import clock
from bough.domain.calendar_month import start_of_month
from bough.domain.consumption import Granularity
from bough.store.store import Store

_RETENTION = {Granularity.HOURLY: timedelta(days=8), Granularity.DAILY: timedelta(days=61)}


class DeleteOldConsumption:
    interval = 3600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        now, count = clock.now(), 0
        month = start_of_month(now)
        oldest = {granularity: now - age for granularity, age in _RETENTION.items()}
        oldest[Granularity.MONTHLY] = start_of_month(month.replace(year=month.year - 1) - timedelta(days=1))
        for granularity, moment in oldest.items():
            async with self._store.transaction(durable=False) as rows:
                count += await rows.consumption.delete_before(granularity, granularity.start_of(moment))
        return f"deleted {count} old buckets of consumption" if count else ""
