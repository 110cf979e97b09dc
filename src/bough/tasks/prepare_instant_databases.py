"""Keeps a few prepared databases while instant databases are in demand, so that creating one only assigns it."""

from bough.control.instant.prepared import PreparedDatabasePool
from bough.control.services import Services


class PrepareInstantDatabases:
    interval = 0.25

    def __init__(self, services: Services) -> None:
        self._pool = PreparedDatabasePool(services)

    async def run(self) -> str:
        return await self._pool.reconcile()
