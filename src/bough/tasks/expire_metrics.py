"""Deletes metrics that are too old, that take more than their share of the disk, or whose endpoints are deleted."""

from bough import clock
from bough.config import Settings
from bough.domain.metrics.budget import plan_deletions
from bough.domain.metrics.tiers import list_expiry
from bough.store.store import Store

_BATCH_SIZE = 500  # series deleted in one transaction


class ExpireMetrics:
    interval = 300.0

    def __init__(self, settings: Settings, store: Store) -> None:
        self._budget = settings.metrics_disk_bytes
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction(durable=False) as rows:
            for step, moment in list_expiry(clock.now().timestamp()).items():
                await rows.metrics.delete_before(step, moment)
        await self._delete_unused()
        return await self._keep_budget()

    async def _delete_unused(self) -> None:
        async with self._store.read(slow=True) as rows:
            unused = await rows.metrics.list_unused_series()
        for start in range(0, len(unused), _BATCH_SIZE):
            async with self._store.transaction(durable=False) as rows:
                await rows.metrics.delete_series(unused[start : start + _BATCH_SIZE])

    async def _keep_budget(self) -> str:
        async with self._store.read(slow=True) as rows:
            deletions = plan_deletions(await rows.metrics.list_sizes(), self._budget)
        if not deletions:
            return ""
        async with self._store.transaction(durable=False) as rows:
            for each in deletions:
                await rows.metrics.delete_before(each.step, each.before, is_pending=each.is_pending)
        return "deleted metrics to stay within metrics_disk_bytes"
