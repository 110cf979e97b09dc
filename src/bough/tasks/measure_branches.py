"""The size of each branch whose compute runs: measured, never guessed."""

from bough.engine.port import Engine
from bough.store.store import Store


class MeasureBranches:
    every = 30.0

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store = store
        self._engine = engine

    async def run(self) -> str:
        async with self._store.read() as rows:
            active = await rows.endpoints.active()
            known = {
                endpoint.id: await rows.branches.get(endpoint.project_id, endpoint.branch_id) for endpoint in active
            }
        for endpoint in active:
            usage = await self._engine.usage(endpoint.id)
            branch = known[endpoint.id]
            if usage is None or branch is None or branch.logical_size == usage.logical_bytes:
                continue
            async with self._store.transaction() as rows:
                await rows.branches.set_size(endpoint.branch_id, usage.logical_bytes)
        return ""
