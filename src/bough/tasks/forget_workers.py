"""Gateway workers that reported nothing for a day are gone, and forgotten."""

from datetime import timedelta

from bough import clock
from bough.store.store import Store

WORKER_RETENTION = timedelta(days=1)


class DeleteGatewayWorkers:
    interval = 3600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction() as rows:
            count = await rows.gateway_workers.delete_before(clock.now() - WORKER_RETENTION)
        return f"forgot {count} gateway workers" if count else ""
