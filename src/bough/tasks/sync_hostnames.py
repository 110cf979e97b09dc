"""The file of hosts names every live endpoint, and none that is gone."""

from bough.control.platform.hostnames import Hostnames, LiveEndpoints
from bough.store.store import Store


class SyncHostnames:
    interval = 15.0

    def __init__(self, store: Store, hostnames: Hostnames) -> None:
        self._store = store
        self._hostnames = hostnames

    async def run(self) -> str:
        return "brought the file of hosts up to date" if await self._hostnames.sync(self._live) else ""

    async def _live(self) -> LiveEndpoints:
        async with self._store.read() as rows:
            return await rows.endpoints.list_regions()
