"""Rolls samples of computes up to minutes and hours, a part of them in each run, once their hour has ended."""

import asyncio

from bough import clock
from bough.domain.metrics.tiers import SAMPLE_SECONDS
from bough.store.metric_roll_ups import add_to_chunks, combine_samples
from bough.store.store import Store

_DELAY_SECONDS = 2 * SAMPLE_SECONDS  # after the end of an hour, until its last samples are written


class RollUpMetrics:
    interval = 15.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        """Roll up one hour of one shard, which takes a few milliseconds for each of its computes."""
        async with self._store.read(slow=True) as rows:
            pending = await rows.metric_roll_ups.find_pending(int(clock.now().timestamp()) - _DELAY_SECONDS)
        if pending is None:
            return ""
        combined = await asyncio.to_thread(combine_samples, pending)
        async with self._store.read(slow=True) as rows:
            stored = await rows.metric_roll_ups.read_chunks(combined)
        chunks = await asyncio.to_thread(add_to_chunks, combined, stored)
        async with self._store.transaction(durable=False) as rows:
            await rows.metric_roll_ups.save(pending, chunks)
        return ""
