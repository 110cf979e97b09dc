"""While instant databases are in demand, a few wait whole and running, so that a call has only to hand one out."""

from bough.control.instant.prepared import PreparedDatabasePool
from bough.control.services import Services


class PrepareInstantDatabases:
    interval = 0.25

    def __init__(self, services: Services) -> None:
        self._prepared = PreparedDatabasePool(services)

    async def run(self) -> str:
        return await self._prepared.reconcile()
