"""Counts the running time and size of computes every ten seconds, so that a crash loses at most that much.

Computes keep running while control is down; that time is counted after control restarts.
"""

from bough import clock
from bough.engine.port import EngineInspection
from bough.store.store import Store


class CountActiveTime:
    interval = 10.0

    def __init__(self, store: Store, engine: EngineInspection) -> None:
        self._store = store
        self._engine = engine

    async def run(self) -> str:
        observed = await self._engine.observe()
        if not observed.running_endpoints:
            async with self._store.read() as rows:
                if not await rows.usage.list_metered():
                    return ""
        async with self._store.transaction(durable=False) as rows:
            metered = await rows.usage.list_metered()
            await rows.usage.add_running_time(
                metered, clock.now(), running=observed.running_endpoints, sizes=observed.cu_by_endpoint
            )
        return ""
