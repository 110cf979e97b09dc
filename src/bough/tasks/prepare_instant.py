"""While instant databases are in demand, a few wait whole and running, so that a call has only to hand one out."""

from bough.control.parts import Parts
from bough.control.prepared_databases import PreparedDatabases


class PrepareInstant:
    every = 0.25

    def __init__(self, parts: Parts) -> None:
        self._prepared = PreparedDatabases(parts)

    async def run(self) -> str:
        return await self._prepared.keep()
