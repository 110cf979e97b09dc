"""Prunes bases and archived WAL that no point within the retention and no other volume needs."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from bough.engine.local.build_uses import BuildUses
from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.project_lineages import ProjectLineages, build_node
from bough.engine.local.history.prune_lock import PruneLock
from bough.engine.local.history.retention import RetainedHistory, compute_retention
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.local.tenant_files import unlink
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, VolumeHasDependents
from bough.ids import ProjectId, VolumeId
from bough.postgres import archiver, wal


class HistoryPruner:
    def __init__(
        self, volumes: Volumes, archives: WalArchives, bases: Bases, prune_lock: PruneLock, uses: BuildUses
    ) -> None:
        self._uses = uses
        self._volumes = volumes
        self._archives = archives
        self._bases = bases
        self._prune_lock = prune_lock
        self._project_lineages = ProjectLineages(volumes, archives)

    async def prune(self, volume: VolumeId, record: VolumeRecord, since: datetime | None) -> None:
        """Prune what is not needed since that time; None retains nothing for the volume itself.

        Does nothing while the project has a recovery under way.
        """
        async with self._prune_lock.try_exclusive(record.project_id) as is_exclusive:
            if not is_exclusive:
                return
            hidden = await self._volumes.run_blocking(lambda: self._prune(volume, record, since), record.project_id)
        for base in hidden:
            await self._bases.drop(base, record.project_id)

    async def drop_bases(self, project: ProjectId, volume: VolumeId) -> None:
        """Drop all bases of the volume. Raises VolumeHasDependents while another volume depends on its history."""
        async with self._prune_lock.try_exclusive(project) as is_exclusive:
            if not is_exclusive:
                raise VolumeHasDependents("A branch of the project is being recovered: try again.")
            hidden = await run_shielded(lambda: self._hide_all(project, volume))
        for base in hidden:
            await self._bases.drop(base, project)

    def _prune(self, volume: VolumeId, record: VolumeRecord, since: datetime | None) -> list[Base]:
        node = build_node(volume, record, self._bases.list_bases(volume))
        without_dependents = compute_retention(volume, {volume: node}, since)
        is_same = (
            len(without_dependents.bases) == len(node.lineage.bases)
            and without_dependents.is_self_contained == record.is_self_contained
        )
        if is_same and not self._prunable_files(volume, without_dependents):
            return []  # the usual case: there is nothing to prune, whatever other volumes need
        broken: list[VolumeId] = []
        nodes = {**self._project_lineages.read_project(record.project_id, broken), volume: node}
        self._check_known(volume, broken)
        retained = compute_retention(volume, nodes, since)
        if retained.is_self_contained != record.is_self_contained:
            self._write(volume, replace(record, is_self_contained=retained.is_self_contained))
        use = self._uses.read(volume)
        kept = use.base if use else None  # until the next Postgres build has started
        hidden = [base for base in node.lineage.bases if base not in retained.bases and base.name != kept]
        for base in hidden:
            self._bases.hide(base)
        self._unlink(volume, self._prunable_files(volume, retained))
        return hidden

    def _check_known(self, volume: VolumeId, broken: list[VolumeId]) -> None:
        """A volume with a broken record may depend on this one if the owner of their files is the same."""
        for other in broken:
            if self._uids(other) & self._uids(volume):
                raise EngineError(
                    f"The record of the volume {other} is broken, so history that it may depend on is not pruned: "
                    "restore its volume.json from a backup.",
                    transient=False,
                )

    def _uids(self, volume: VolumeId) -> set[int]:
        uids = set()
        for path in (self._volumes.folder(volume).data, self._volumes.wal_archive_path(volume)):
            with suppress(FileNotFoundError):
                uids.add(path.stat().st_uid)
        return uids

    def _hide_all(self, project: ProjectId, volume: VolumeId) -> list[Base]:
        nodes = self._project_lineages.read_project(project)
        if volume in nodes and compute_retention(volume, nodes, None).has_dependents:
            raise VolumeHasDependents("Another branch depends on the history of this branch: try again later.")
        bases = self._bases.list_bases(volume)
        for base in bases:
            self._bases.hide(base)
        return bases

    def _prunable_files(self, volume: VolumeId, retained: RetainedHistory[Base]) -> list[str]:
        names = self._archives.list_names(volume)
        segments = [name for name in names if wal.is_segment(name) and not retained.retains(name)]
        return segments + [name for name in names if archiver.is_disposable(name)]

    def _unlink(self, volume: VolumeId, names: Iterable[str]) -> None:
        with suppress(FileNotFoundError, TenantFileError), self._archives.open_folder(volume) as archive:
            for name in names:
                with suppress(TenantFileError):
                    unlink(name, archive)

    def _write(self, volume: VolumeId, record: VolumeRecord) -> None:
        folder = self._volumes.folder(volume)
        if folder.read_record() is None:
            self._archives.write_retired_record(volume, record)
        else:
            folder.write_record(record)
