"""Whose a project's files are: one user a project, from its first volume to its last."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from bough.engine.local.isolation.sandbox import Identity, Sandbox
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.ids import ProjectId


class ProjectUsers:
    def __init__(self, sandbox: Sandbox, volumes: Volumes) -> None:
        self._sandbox = sandbox
        self._volumes = volumes
        self._locks = NamedLocks()
        self._making: Counter[ProjectId] = Counter()

    @asynccontextmanager
    async def acquire(self, project: ProjectId) -> AsyncIterator[Identity]:
        """The project's user, who is not released while a first volume is being made."""
        self._making[project] += 1
        try:
            async with self._locks.lock(project):
                owner = await run_shielded(lambda: self._sandbox.ensure_identity(project))
            yield owner
        finally:
            self._making[project] -= 1
            if not self._making[project]:
                del self._making[project]

    async def release_if_unused(self, project: ProjectId) -> None:
        async with self._locks.lock(project):
            if not self._making[project] and self._sandbox.find_identity(project) not in await self._volume_users():
                # To end a tenant's processes and remove its files may take long.
                await self._volumes.run_removal(lambda: self._sandbox.release(project), project)

    async def release_all_unused(self) -> None:
        """The users of projects without a volume, as a crash may leave them, serve others again."""
        needed = await self._volume_users()
        for project in self._sandbox.list_projects():
            if self._sandbox.find_identity(project) not in needed:
                await self.release_if_unused(project)

    async def reassign(self, source: ProjectId, target: ProjectId) -> None:
        """The user of one project is another's from now on, which must have none."""
        async with self._locks.lock(target):
            await run_shielded(lambda: self._sandbox.reassign(source, target))

    async def has_no_user(self, project: ProjectId) -> bool:
        return await run_shielded(lambda: self._sandbox.find_identity(project) is None)

    async def is_owner(self, project: ProjectId, folder: VolumeFolder) -> bool:
        return await run_shielded(lambda: self._sandbox.find_identity(project) == folder.owner)

    async def _volume_users(self) -> set[Identity]:
        """Those who own a volume or its history: the files themselves are asked, as a record may be broken."""
        return await asyncio.to_thread(lambda: set(_find_users(self._volumes)))


def _find_users(volumes: Volumes) -> Iterator[Identity]:
    data = (volumes.folder(volume).data for volume in volumes.list_volumes_and_bases())
    for path in (*data, *map(volumes.archive_path, volumes.list_archives())):
        with suppress(FileNotFoundError):
            seen = path.stat()
            yield Identity(seen.st_uid, seen.st_gid)
