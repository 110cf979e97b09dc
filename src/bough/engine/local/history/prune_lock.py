"""Who gathers what a point needs and who throws old history away take turns, in each project.

Many may gather at a time. Nobody waits to throw something away: it can be done later.
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
        """No base and no archived file of the project goes away meanwhile."""
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
        """Whether something may be thrown away now; nobody begins to gather meanwhile."""
        async with self._locks.lock(project):
            yield not self._holders[project]
