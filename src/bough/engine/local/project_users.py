"""The operating system user of each project, which owns its files from its first volume to its last."""

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
        self._creating: Counter[ProjectId] = Counter()

    @asynccontextmanager
    async def acquire(self, project: ProjectId) -> AsyncIterator[Identity]:
        """Yield the project's user, which is not released during the block."""
        self._creating[project] += 1
        try:
            async with self._locks.lock(project):
                owner = await run_shielded(lambda: self._sandbox.ensure_identity(project))
            yield owner
        finally:
            self._creating[project] -= 1
            if not self._creating[project]:
                del self._creating[project]

    async def release_if_unused(self, project: ProjectId) -> None:
        async with self._locks.lock(project):
            if not self._creating[project] and self._sandbox.find_identity(project) not in await self._volume_users():
                # Stopping a tenant's processes and removing its files may take long.
                await self._volumes.run_removal(lambda: self._sandbox.release(project), project)

    async def release_all_unused(self) -> None:
        """Release the users of projects without a volume, which a crash may have left."""
        used = await self._volume_users()
        for project in self._sandbox.list_projects():
            if self._sandbox.find_identity(project) not in used:
                await self.release_if_unused(project)

    async def reassign(self, source: ProjectId, target: ProjectId) -> None:
        """Give the user of one project to another, which must have none."""
        async with self._locks.lock(target):
            await run_shielded(lambda: self._sandbox.reassign(source, target))

    async def has_no_user(self, project: ProjectId) -> bool:
        return await run_shielded(lambda: self._sandbox.find_identity(project) is None)

    async def is_owner(self, project: ProjectId, folder: VolumeFolder) -> bool:
        return await run_shielded(lambda: self._sandbox.find_identity(project) == folder.owner)

    async def _volume_users(self) -> set[Identity]:
        """Return the owners of volumes and archives, read from the files because a record may be broken."""
        return await asyncio.to_thread(lambda: set(_find_users(self._volumes)))


def _find_users(volumes: Volumes) -> Iterator[Identity]:
    data = (volumes.folder(volume).data for volume in volumes.list_volumes_and_bases())
    for path in (*data, *map(volumes.wal_archive_path, volumes.list_wal_archives())):
        with suppress(FileNotFoundError):
            status = path.stat()
            yield Identity(status.st_uid, status.st_gid)
