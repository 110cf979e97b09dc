"""Keeps the hosts file in step with the live endpoints."""

from bough.control.platform.hostnames import Hostnames, LiveEndpoints
from bough.store.store import Store


class SyncHostnames:
    interval = 15.0

    def __init__(self, store: Store, hostnames: Hostnames) -> None:
        self._store = store
        self._hostnames = hostnames

    async def run(self) -> str:
        return "updated the hosts file" if await self._hostnames.sync(self._list_live) else ""

    async def _list_live(self) -> LiveEndpoints:
        async with self._store.read() as rows:
            return await rows.endpoints.list_regions()
