"""Keeps pruning and recovery of one project apart.

Any number of recoveries may run at a time. Pruning does not wait for them: it is skipped and done later.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bough.engine.local.threads import NamedLocks
from bough.ids import ProjectId


class PruneLock:
    def __init__(self) -> None:
        self._locks = NamedLocks()
        self._holders: Counter[ProjectId] = Counter()

    @asynccontextmanager
    async def shared(self, project: ProjectId) -> AsyncIterator[None]:
        """Prevent pruning of the project's bases and archived WAL."""
        async with self._locks.lock(project):
            self._holders[project] += 1
        try:
            yield
        finally:
            self._holders[project] -= 1
            if not self._holders[project]:
                del self._holders[project]

    @asynccontextmanager
    async def try_exclusive(self, project: ProjectId) -> AsyncIterator[bool]:
        """Yield whether pruning is allowed; until the block ends, no recovery starts."""
        async with self._locks.lock(project):
            yield not self._holders[project]
