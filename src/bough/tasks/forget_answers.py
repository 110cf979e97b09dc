"""Answers kept for an Idempotency-Key are forgotten after a day."""

from datetime import timedelta

from bough import clock
from bough.control.once import HOURS_KEPT
from bough.store.store import Store


class ForgetAnswers:
    every = 600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction() as rows:
            count = await rows.idempotency.forget_before(clock.now() - timedelta(hours=HOURS_KEPT))
        return f"forgot {count} remembered answers" if count else ""
