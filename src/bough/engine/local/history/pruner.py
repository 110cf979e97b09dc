"""What nobody can go back to any more is thrown away, and never what another volume stands on."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.project_lineages import ProjectLineages, build_node
from bough.engine.local.history.prune_lock import PruneLock
from bough.engine.local.history.retention import RetainedHistory, compute_retention
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.tenant_files import TenantFileError, unlink
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, VolumeHasDependents
from bough.ids import ProjectId, VolumeId
from bough.postgres import archiver, wal


class HistoryPruner:
    def __init__(self, volumes: Volumes, archives: WalArchives, bases: Bases, prune_lock: PruneLock) -> None:
        self._volumes = volumes
        self._archives = archives
        self._bases = bases
        self._prune_lock = prune_lock
        self._project_lineages = ProjectLineages(volumes, archives)

    async def prune(self, volume: VolumeId, record: VolumeRecord, since: datetime | None) -> None:
        """`since` is the first moment that is wanted; None: none is."""
        async with self._prune_lock.try_exclusive(record.project_id) as may:
            if not may:  # another time
                return
            dropped = await self._volumes.run_blocking(lambda: self._prune(volume, record, since), record.project_id)
        for base in dropped:
            await self._bases.drop(base, record.project_id)

    async def drop_bases(self, project: ProjectId, volume: VolumeId) -> None:
        """Nothing of the volume's history is left; refused while another stands on it."""
        async with self._prune_lock.try_exclusive(project) as may:
            if not may:
                raise VolumeHasDependents("A point of the project's history is being gone back to: try again.")
            dropped = await run_shielded(lambda: self._hide_all(project, volume))
        for base in dropped:
            await self._bases.drop(base, project)

    def _prune(self, volume: VolumeId, record: VolumeRecord, since: datetime | None) -> list[Base]:
        own = build_node(volume, record, self._bases.list_bases(volume))
        alone = compute_retention(volume, {volume: own}, since)
        is_same = len(alone.bases) == len(own.lineage.bases) and alone.is_self_contained == record.begins_itself
        if is_same and not self._prunable_files(volume, alone):  # most often: nobody else need be looked at
            return []
        broken: list[VolumeId] = []
        family = {**self._project_lineages.read_project(record.project_id, broken), volume: own}
        self._check_known(volume, broken)
        needed = compute_retention(volume, family, since)
        if needed.is_self_contained != record.begins_itself:
            self._write(volume, replace(record, begins_itself=needed.is_self_contained))
        dropped = [base for base in own.lineage.bases if base not in needed.bases]
        for base in dropped:
            self._bases.hide(base)
        self._unlink(volume, self._prunable_files(volume, needed))
        return dropped

    def _check_known(self, volume: VolumeId, broken: list[VolumeId]) -> None:
        """Nobody knows what a volume stands on whose record is broken; but whose it is, its files tell."""
        for other in broken:
            if self._uids(other) & self._uids(volume):
                raise EngineError(
                    f"The record of the volume {other} is broken, so no history is thrown away that it may stand on: "
                    "put its volume.json back from a backup.",
                    transient=False,
                )

    def _uids(self, volume: VolumeId) -> set[int]:
        found = set()
        for path in (self._volumes.folder(volume).data, self._archives.folder(volume)):
            with suppress(FileNotFoundError):
                found.add(path.stat().st_uid)
        return found

    def _hide_all(self, project: ProjectId, volume: VolumeId) -> list[Base]:
        family = self._project_lineages.read_project(project)
        if volume in family and compute_retention(volume, family, None).has_dependents:
            raise VolumeHasDependents("The history of another branch still needs the branch's: try again later.")
        found = self._bases.list_bases(volume)
        for base in found:
            self._bases.hide(base)
        return found

    def _prunable_files(self, volume: VolumeId, needed: RetainedHistory[Base]) -> list[str]:
        names = self._archives.list_names(volume)
        segments = [name for name in names if wal.is_segment(name) and not needed.retains(name)]
        return segments + [name for name in names if archiver.is_disposable(name)]

    def _unlink(self, volume: VolumeId, names: Iterable[str]) -> None:
        with suppress(FileNotFoundError, TenantFileError), self._archives.open_folder(volume) as here:
            for name in names:
                with suppress(TenantFileError):
                    unlink(name, here)

    def _write(self, volume: VolumeId, record: VolumeRecord) -> None:
        folder = self._volumes.folder(volume)
        if folder.read_record() is None:
            self._archives.write_retired_record(volume, record)
        else:
            folder.write_record(record)
