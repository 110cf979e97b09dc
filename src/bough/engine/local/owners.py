"""Whose a project's files are: one user a project, from its first volume to its last."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from bough.engine.local.isolation.sandbox import Identity, Sandbox
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.ids import ProjectId


class Owners:
    def __init__(self, sandbox: Sandbox, volumes: Volumes) -> None:
        self._sandbox = sandbox
        self._volumes = volumes
        self._locks = Locks()
        self._making: Counter[ProjectId] = Counter()

    @asynccontextmanager
    async def of(self, project: ProjectId) -> AsyncIterator[Identity]:
        """The project's user, who is not released while a first volume is being made."""
        self._making[project] += 1
        try:
            async with self._locks.of(project):
                owner = await unbroken(lambda: self._sandbox.identity(project))
            yield owner
        finally:
            self._making[project] -= 1
            if not self._making[project]:
                del self._making[project]

    async def release_when_empty(self, project: ProjectId) -> None:
        async with self._locks.of(project):
            if not self._making[project] and self._sandbox.known(project) not in await self._of_volumes():
                # To end a tenant's processes and remove its files may take long.
                await self._volumes.remove(lambda: self._sandbox.release(project), project)

    async def release_idle(self) -> None:
        """The users of projects without a volume, as a crash may leave them, serve others again."""
        needed = await self._of_volumes()
        for project in self._sandbox.lent():
            if self._sandbox.known(project) not in needed:
                await self.release_when_empty(project)

    async def hand_over(self, project: ProjectId, other: ProjectId) -> None:
        """The user of one project is another's from now on, which must have none."""
        async with self._locks.of(other):
            await unbroken(lambda: self._sandbox.hand_over(project, other))

    async def has_none(self, project: ProjectId) -> bool:
        return await unbroken(lambda: self._sandbox.known(project) is None)

    async def is_owner(self, project: ProjectId, folder: VolumeFolder) -> bool:
        return await unbroken(lambda: self._sandbox.known(project) == folder.owner)

    async def _of_volumes(self) -> set[Identity]:
        """Those who own a volume or its history: the files themselves are asked, as a record may be broken."""
        return await asyncio.to_thread(lambda: set(_owners(self._volumes)))


def _owners(volumes: Volumes) -> Iterator[Identity]:
    data = (volumes.folder(volume).data for volume in volumes.every())
    for path in (*data, *map(volumes.archive, volumes.archived())):
        with suppress(FileNotFoundError):
            seen = path.stat()
            yield Identity(seen.st_uid, seen.st_gid)
