"""The file of hosts names every live endpoint, and none that is gone."""

from bough.control.names import Live, Names
from bough.store.store import Store


class KeepNames:
    every = 15.0

    def __init__(self, store: Store, names: Names) -> None:
        self._store = store
        self._names = names

    async def run(self) -> str:
        return "brought the file of hosts up to date" if await self._names.keep(self._live) else ""

    async def _live(self) -> Live:
        async with self._store.read() as rows:
            return await rows.endpoints.places()
