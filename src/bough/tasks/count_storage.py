"""Records in the consumption history how the storage of branches changed, and new plans and owners of projects."""

from bough import clock
from bough.chunks import iterate_chunks
from bough.control.consumption import counting
from bough.store.store import Store

BATCH_SIZE = 100  # branches per transaction, so that others can write in between


class CountStorage:
    interval = 60.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.read(slow=True) as rows:
            has_new_terms = bool(await rows.consumption.list_changed_terms())
            changed = await rows.stored_amounts.list_changed()
        if has_new_terms:
            async with self._store.transaction(durable=False) as rows:
                now = clock.now()
                await counting.count(rows, now)
                await counting.follow_terms(rows, now)
        async for chunk in iterate_chunks(changed, BATCH_SIZE):
            async with self._store.transaction(durable=False) as rows:
                await counting.count(rows, clock.now(), amounts=chunk)
        return ""
