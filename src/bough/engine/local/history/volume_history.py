"""The facade of volume history: retention, point-in-time recovery and retirement of volumes.

Callers use only this module; the other modules of the package are its parts.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.build_uses import BuildUses
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.folders import Folders
from bough.engine.local.history.ancestry import LineageReader
from bough.engine.local.history.bases import Bases
from bough.engine.local.history.contents_cache import ContentsCache
from bough.engine.local.history.maintenance import HistoryMaintenance
from bough.engine.local.history.pitr import PointInTimeRecovery
from bough.engine.local.history.prune_lock import PruneLock
from bough.engine.local.history.pruner import HistoryPruner
from bough.engine.local.history.retirement import retire_volume
from bough.engine.local.history.return_bases import ReturnBases
from bough.engine.local.history.spool_builder import SpoolBuilder
from bough.engine.local.history.stats import VolumeHistoryStats
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.history.wal_end import WalEndReader
from bough.engine.local.installs.installs import Install
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.templates import Templates
from bough.engine.local.threads import NamedLocks
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import BranchContents, HistoryStatus, Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal


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
        spools: Path,
        uses: BuildUses,
        explain_shortage: Callable[[], str | None],
        base_bytes: int,
    ) -> None:
        self._volumes = volumes
        self._branch_volumes = branch_volumes
        prune_lock = PruneLock()
        self._archives = WalArchives(volumes)
        bases = Bases(volumes, branch_volumes, running, project_users)
        self._lineages = LineageReader(self._archives, bases, templates)
        self._wal_end = WalEndReader(volumes, running)
        self._contents_cache = ContentsCache(self._wal_end)
        self._spools = SpoolBuilder(spools, volumes, self._archives, running, locks)
        self._recovery = PointInTimeRecovery(
            self._lineages,
            self._spools,
            prune_lock,
            self._contents_cache,
            volumes=volumes,
            archives=self._archives,
            temporary=temporary,
            project_users=project_users,
        )
        self._pruner = HistoryPruner(volumes, self._archives, bases, prune_lock, uses)
        self._return_bases = ReturnBases(volumes, bases, uses, explain_shortage)
        self._maintenance = HistoryMaintenance(
            volumes,
            self._archives,
            bases,
            self._lineages,
            wal_end=self._wal_end,
            stats=VolumeHistoryStats(volumes, self._archives, self._lineages, running),
            pruner=self._pruner,
            return_bases=self._return_bases,
            explain_shortage=explain_shortage,
            base_bytes=base_bytes,
        )

    async def remove_leftovers(self) -> None:
        """Remove what a crash left. Call it only at startup, before any recovery begins."""
        await self._spools.remove_leftovers()

    async def is_retired(self, volume: VolumeId) -> bool:
        """Return whether the volume has no record: it is retired, or does not exist."""
        return not await asyncio.to_thread(self._volumes.has_record, volume)

    async def read_template_origin(self, volume: VolumeId) -> Origin:
        """Return the earliest point of a branch without a parent."""
        template = await asyncio.to_thread(self._lineages.read_own_template, volume)
        return Origin(lsn=template.lsn if template else None)

    def list_used_templates(self) -> set[str]:
        """Return the templates that volumes or retained histories start from. Blocks."""
        volumes = {*self._volumes.list_volumes_and_bases(), *self._archives.list_retired()}
        records = (self._archives.read_record(volume) for volume in volumes)
        return {record.template for record in records if record is not None}

    async def create_at_point(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin:
        """Create the volume as its parent was at the point.

        WAL is replayed only if the parent was written to after the point.
        """
        if not spec.point.is_head and not await self.is_retired(parent):
            origin = await self._branch_volumes.try_create_from_stopped(spec, parent, install)
            if origin is not None:
                return origin
        return await self._recovery.create_volume(spec, parent, install)

    async def drop_pending(self, volume: VolumeId, project: ProjectId) -> None:
        """Remove a volume whose recovery did not finish."""
        await self._recovery.drop_pending(volume, project)

    async def pop_contents(self, volume: VolumeId) -> BranchContents | None:
        """Return the contents read at the end of the volume's recovery, if they are still current."""
        return await self._contents_cache.pop(volume)

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        """Return the LSN where the volume's WAL ends; None if it is unknown."""
        return await self._wal_end.read_wal_end(volume)

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        """Take a base if one is due, and prune what is needed neither since then nor by other volumes."""
        return await self._maintenance.apply_retention(volume, since, take_bases=take_bases)

    async def start_history(self, volume: VolumeId) -> HistoryStatus:
        """Make the current state of a stopped volume the earliest point of its history."""
        return await self._maintenance.start_history(volume)

    async def ensure_return_base(self, volume: VolumeId) -> bool:
        """Return whether the volume, on which no compute runs, has a base to return to from another build. Take one if
        that is quick. The caller holds the volume's lock.
        """
        return await self._return_bases.ensure(volume)

    async def has_return_base(self, volume: VolumeId) -> bool:
        """Return whether its next start would move it to the build of its project, as far as its bases decide."""
        return await self._return_bases.is_ready(volume)

    async def retire(self, volume: VolumeId, project: ProjectId) -> None:
        """Archive the rest of the volume's WAL, then remove its data. The caller holds the volume's lock."""
        await retire_volume(self._volumes, self._archives, volume, project)

    async def drop_bases(self, project: ProjectId, volume: VolumeId) -> None:
        """Drop the volume's bases, before the volume itself. Raises VolumeHasDependents."""
        await self._pruner.drop_bases(project, volume)

    async def drop_wal_archive(self, volume: VolumeId, project: ProjectId) -> None:
        await self._archives.drop(volume, project)


def measure_unarchived_wal(folders: Folders) -> dict[VolumeId, int]:
    """Return the bytes of WAL that wait to be archived, of volumes that have any."""
    volumes = Volumes(folders.volumes, folders.wal_archives, folders.pg_wal)
    archives = WalArchives(volumes)
    try:
        counts = {
            name: len(archives.list_unarchived_names(volumes.folder(name))) for name in volumes.list_volumes_and_bases()
        }
    except FileNotFoundError:
        return {}
    return {name: count * wal.SEGMENT_BYTES for name, count in counts.items() if count}
