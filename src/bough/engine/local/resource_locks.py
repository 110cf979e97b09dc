"""The locks of branches and computes. Every change of the local engine holds one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bough.engine.local.folders import Folders
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.threads import NamedLocks


class ResourceLocks:
    """Locks by name, which is the id of a volume or of an endpoint."""

    def __init__(self, locks: NamedLocks, folders: Folders) -> None:
        self._locks = locks
        self._folders = folders
        self._waiting = 0  # requests for a branch or a compute that a user waits for

    @property
    def has_waiting_requests(self) -> bool:
        return self._waiting > 0

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncIterator[None]:
        """Lock the name, and check that the storage is mounted: without it every volume would seem absent."""
        async with self._locks.lock(name):
            with translate_os_errors():
                await asyncio.to_thread(self._folders.check_storage)
                yield

    @asynccontextmanager
    async def lock_for_request(self, name: str) -> AsyncIterator[None]:
        """Lock the name for a request that a user waits for. The warm pool creates no spare meanwhile."""
        self._waiting += 1
        try:
            async with self.lock(name):
                yield
        finally:
            self._waiting -= 1
