"""Answers kept for an Idempotency-Key are forgotten after a day."""

from datetime import timedelta

from bough import clock
from bough.control.idempotency import RETENTION_HOURS
from bough.store.store import Store


class DeleteIdempotencyKeys:
    interval = 600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction() as rows:
            count = await rows.idempotency.delete_before(clock.now() - timedelta(hours=RETENTION_HOURS))
        return f"forgot {count} remembered answers" if count else ""
