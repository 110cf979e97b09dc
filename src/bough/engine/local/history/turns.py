"""Who gathers what a point needs and who throws old history away take turns, in each project.

Many may gather at a time. Nobody waits to throw something away: it can be done later.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bough.engine.local.threads import Locks
from bough.ids import ProjectId


class Turns:
    def __init__(self) -> None:
        self._locks = Locks()
        self._gathering: Counter[ProjectId] = Counter()

    @asynccontextmanager
    async def gathering(self, project: ProjectId) -> AsyncIterator[None]:
        """No base and no archived file of the project goes away meanwhile."""
        async with self._locks.of(project):
            self._gathering[project] += 1
        try:
            yield
        finally:
            self._gathering[project] -= 1
            if not self._gathering[project]:
                del self._gathering[project]

    @asynccontextmanager
    async def clearing(self, project: ProjectId) -> AsyncIterator[bool]:
        """Whether something may be thrown away now; nobody begins to gather meanwhile."""
        async with self._locks.of(project):
            yield not self._gathering[project]
