"""The time that computes run, and their size, is counted every ten seconds, so that a crash loses no more than that.

While control is away computes run on; what they ran meanwhile is counted when it is back.
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
        seen = await self._engine.observe()
        if not seen.running_endpoints:
            async with self._store.read() as rows:
                if not await rows.usage.list_metered():
                    return ""
        async with self._store.transaction(durable=False) as rows:
            counted = await rows.usage.list_metered()
            await rows.usage.add_running_time(
                counted, clock.now(), running=seen.running_endpoints, sizes=seen.cu_by_endpoint
            )
        return ""
