"""What nobody can go back to any more is thrown away, and never what another volume stands on."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from bough.engine.local.history.archives import Archives
from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.families import Families, kin
from bough.engine.local.history.needs import Needs, needs
from bough.engine.local.history.turns import Turns
from bough.engine.local.tenant_files import TenantFileError, unlink
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, StoodOn
from bough.ids import ProjectId, VolumeId
from bough.postgres import archiving, wal


class Pruning:
    def __init__(self, volumes: Volumes, archives: Archives, bases: Bases, turns: Turns) -> None:
        self._volumes = volumes
        self._archives = archives
        self._bases = bases
        self._turns = turns
        self._families = Families(volumes, archives)

    async def prune(self, volume: VolumeId, record: VolumeRecord, since: datetime | None) -> None:
        """`since` is the first moment that is wanted; None: none is."""
        async with self._turns.clearing(record.project_id) as may:
            if not may:  # another time
                return
            dropped = await self._volumes.work(lambda: self._prune(volume, record, since), record.project_id)
        for base in dropped:
            await self._bases.drop(base, record.project_id)

    async def drop_all(self, project: ProjectId, volume: VolumeId) -> None:
        """Nothing of the volume's history is left; refused while another stands on it."""
        async with self._turns.clearing(project) as may:
            if not may:
                raise StoodOn("A point of the project's history is being gone back to: try again.")
            dropped = await unbroken(lambda: self._hide_all(project, volume))
        for base in dropped:
            await self._bases.drop(base, project)

    def _prune(self, volume: VolumeId, record: VolumeRecord, since: datetime | None) -> list[Base]:
        own = kin(volume, record, self._bases.of(volume))
        alone = needs(volume, {volume: own}, since)
        is_same = len(alone.bases) == len(own.life.bases) and alone.begins_itself == record.begins_itself
        if is_same and not self._useless(volume, alone):  # most often: nobody else need be looked at
            return []
        broken: list[VolumeId] = []
        family = {**self._families.of(record.project_id, broken), volume: own}
        self._check_known(volume, broken)
        needed = needs(volume, family, since)
        if needed.begins_itself != record.begins_itself:
            self._write(volume, replace(record, begins_itself=needed.begins_itself))
        dropped = [base for base in own.life.bases if base not in needed.bases]
        for base in dropped:
            self._bases.hide(base)
        self._unlink(volume, self._useless(volume, needed))
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
        family = self._families.of(project)
        if volume in family and needs(volume, family, None).stood_on:
            raise StoodOn("The history of another branch still needs the branch's: try again later.")
        found = self._bases.of(volume)
        for base in found:
            self._bases.hide(base)
        return found

    def _useless(self, volume: VolumeId, needed: Needs[Base]) -> list[str]:
        names = self._archives.names(volume)
        segments = [name for name in names if wal.is_segment(name) and not needed.keeps(name)]
        return segments + [name for name in names if archiving.is_note(name)]

    def _unlink(self, volume: VolumeId, names: Iterable[str]) -> None:
        with suppress(FileNotFoundError, TenantFileError), self._archives.opened(volume) as here:
            for name in names:
                with suppress(TenantFileError):
                    unlink(name, here)

    def _write(self, volume: VolumeId, record: VolumeRecord) -> None:
        folder = self._volumes.folder(volume)
        if folder.read() is None:
            self._archives.keep_record(volume, record)
        else:
            folder.write(record)
