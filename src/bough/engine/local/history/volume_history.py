"""The histories of all volumes, put together of the files beside it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.history.ancestry import LineageReader
from bough.engine.local.history.bases import Bases
from bough.engine.local.history.contents_cache import ContentsCache
from bough.engine.local.history.maintenance import HistoryMaintenance
from bough.engine.local.history.pitr import PointInTimeRecovery
from bough.engine.local.history.prune_lock import PruneLock
from bough.engine.local.history.retirement import VolumeRetirement
from bough.engine.local.history.spool_builder import SpoolBuilder
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.history.wal_end import WalEndReader
from bough.engine.local.installs.catalog import InstallCatalog
from bough.engine.local.installs.installs import Install
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.templates import Templates
from bough.engine.local.threads import NamedLocks
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId


class VolumeHistory:
    def __init__(
        self,
        volumes: Volumes,
        templates: Templates,
        branch_volumes: BranchVolumes,
        *,
        running: RunningComputes,
        temporary: TemporaryComputes,
        project_users: ProjectUsers,
        locks: NamedLocks,
        install_catalog: InstallCatalog,
        spools: Path,
        explain_shortage: Callable[[], str | None],
        base_bytes: int,
    ) -> None:
        self._volumes = volumes
        self._branch_volumes = branch_volumes
        turns = PruneLock()
        self._archives = WalArchives(volumes)
        self._bases = Bases(volumes, branch_volumes, running, project_users)
        self._lineages = lives = LineageReader(self._archives, self._bases, templates)
        self._spools = SpoolBuilder(spools, volumes, self._archives, running, locks)
        self._wal_end = WalEndReader(volumes, running)
        self._contents_cache = ContentsCache(self._wal_end)
        self._recovery = PointInTimeRecovery(
            lives,
            self._spools,
            turns,
            self._contents_cache,
            volumes=volumes,
            temporary=temporary,
            project_users=project_users,
        )
        self._maintenance = HistoryMaintenance(
            volumes, lives, running, turns, install_catalog, explain_shortage=explain_shortage, base_bytes=base_bytes
        )
        self._retirement = VolumeRetirement(volumes, self._archives)

    async def remove_leftovers(self) -> None:
        await self._spools.remove_leftovers()

    async def is_retired(self, volume: VolumeId) -> bool:
        """Whether of a volume that was there only the history is left."""
        return await asyncio.to_thread(lambda: self._volumes.folder(volume).read_record() is None)

    async def template_origin(self, install: Install) -> Origin:
        """Where every branch without a parent begins: it can be gone back to from there on."""
        found = await asyncio.to_thread(self._lineages.read_template, install.id)
        return Origin(lsn=found.lsn if found else None)

    async def create_at_point(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin:
        """The volume as its parent was at the point. Nothing is replayed when nothing was written after it, as it
        often is.
        """
        if not spec.point.is_head and not await self.is_retired(parent):
            cloned = await self._branch_volumes.try_create_from_stopped(spec, parent, install)
            if cloned is not None:
                return cloned
        return await self._recovery.create_volume(spec, parent, install)

    async def drop_pending(self, volume: VolumeId, project: ProjectId) -> None:
        await self._recovery.drop_pending(volume, project)

    async def drop_bases(self, project: ProjectId, volume: VolumeId) -> None:
        """Before the volume itself goes."""
        await self._maintenance.pruner.drop_bases(project, volume)

    async def drop_archive(self, volume: VolumeId, project: ProjectId) -> None:
        await self._volumes.run_removal(lambda: self._archives.drop(volume), project)
