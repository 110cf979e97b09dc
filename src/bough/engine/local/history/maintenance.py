"""Keeping a volume's history: a base now and then, so that little has to be replayed, and nothing older than wanted.

A volume needs no base when it is made, for it stands on its parent or on the template. It gets one when so much WAL
was written that replaying it would take long, and before what it stands on would have to be kept for it alone.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock
from bough.domain import lsn
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.history.ancestry import LineageReader
from bough.engine.local.history.bases import Base
from bough.engine.local.history.prune_lock import PruneLock
from bough.engine.local.history.pruner import HistoryPruner
from bough.engine.local.history.stats import VolumeHistoryStats, first_reachable_lsn
from bough.engine.local.history.wal_end import WalEndReader
from bough.engine.local.installs.catalog import InstallCatalog
from bough.engine.local.tenant_files import open_tenant_folder
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.disk_usage import DiskUsage, measure_disk_usage, measure_disk_usage_fd
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, HistoryStatus
from bough.ids import VolumeId

_MIN_RETENTION = timedelta(seconds=5)  # who wants so little wants none
_OWN_BASE_AFTER = timedelta(hours=1)  # of a child that writes; many do not live so long
_TRIES = 3  # of a base, before that is trouble
_MIN_WRITTEN_BYTES = 64 * 1024  # bytes of WAL; to start and stop writes less


class HistoryMaintenance:
    def __init__(
        self,
        volumes: Volumes,
        lineages: LineageReader,
        running: RunningComputes,
        prune_lock: PruneLock,
        install_catalog: InstallCatalog,
        *,
        explain_shortage: Callable[[], str | None],
        base_bytes: int,
    ) -> None:
        self._volumes = volumes
        self._lineages = lineages
        self._archives = lineages.archives
        self._bases = lineages.bases
        self._wal_end = WalEndReader(volumes, running)
        self._install_catalog = install_catalog
        self._explain_shortage = explain_shortage  # of space, in a sentence
        self._base_bytes = base_bytes
        self._stats = VolumeHistoryStats(volumes, lineages, running)
        self.pruner = HistoryPruner(volumes, self._archives, self._bases, prune_lock)
        self._failed: Counter[VolumeId] = Counter()
        self._locks = NamedLocks()  # of volumes, for their histories: a volume may be opened meanwhile

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        now = clock.now()
        wanted = since if now - since > _MIN_RETENTION else None
        async with self._locks.lock(volume):
            record = await asyncio.to_thread(self._read_record, volume)
            is_due = False
            if await run_shielded(lambda: self._ensure_archive(volume)) and wanted is not None:
                is_due = await self._is_due(volume, record, wanted, now)
            trouble = await self._take_due_base(volume, record) if is_due and take_bases else None
            await self.pruner.prune(volume, record, wanted)
            kept = await self._stats.measure(volume, await asyncio.to_thread(self._read_record, volume), trouble)
        return replace(kept, is_base_due=is_due and not take_bases)

    async def start_history(self, volume: VolumeId) -> HistoryStatus:
        """Its history begins with what it holds now. Nobody serves it."""
        async with self._locks.lock(volume):
            record = await asyncio.to_thread(self._read_record, volume)
            end = await self._wal_end.read_wal_end(volume)
            if end is None:
                raise EngineError("The branch's compute runs, or was killed: its history cannot begin now.")
            if not await asyncio.to_thread(self._has_base_at, volume, end):
                if sentence := await asyncio.to_thread(self._explain_shortage):
                    raise EngineError(sentence, transient=False)
                if await self._take_base(volume, record) is None:
                    raise EngineError("The branch's data cannot be copied now, so its history cannot begin.")
            began = replace(record, begins_itself=True)
            await run_shielded(lambda: self._volumes.folder(volume).write_record(began))
            await self.pruner.prune(volume, began, clock.now())
            return await self._stats.measure(volume, began)

    async def _take_due_base(self, volume: VolumeId, record: VolumeRecord) -> str | None:
        """What kept one from being taken, in a sentence. What passes is trouble when it does not."""
        if sentence := await asyncio.to_thread(self._explain_shortage):
            return f"No base is taken, so that a restore will take longer. {sentence}"
        try:
            await self._take_base(volume, record)
        except EngineError as error:
            self._failed[volume] += 1
            if error.transient and self._failed[volume] < _TRIES:
                return None
            return f"No base could be taken: {error.public_message}"
        self._failed.pop(volume, None)
        return None

    async def _take_base(self, volume: VolumeId, record: VolumeRecord) -> Base | None:
        return await self._bases.take(volume, record, await self._install_catalog.require_install(record.install))

    async def _is_due(self, volume: VolumeId, record: VolumeRecord, since: datetime, now: datetime) -> bool:
        end = await self._wal_end.read_wal_end(volume)
        if end is None:
            return False
        own = await asyncio.to_thread(self._bases.list_bases, volume)
        if own:
            return await self._is_base_worthwhile(volume, record, lsn.to_int(end) - lsn.to_int(own[-1].lsn))
        if not await asyncio.to_thread(self._stats.is_start_reachable, volume):
            return await self._wal_end.is_archiving(volume)
        life = (await asyncio.to_thread(self._lineages.read, volume)).lineages[0]
        written = lsn.to_int(end) - life.fork_position
        if record.parent is None:
            return await self._is_base_worthwhile(volume, record, written)
        began = record.origin.at or now
        if began <= since:
            return True
        is_old = now - began > min(_OWN_BASE_AFTER, (now - since) / 8)
        wrote = written > _MIN_WRITTEN_BYTES and self._volumes.driver.name != "plain"
        return (wrote and is_old) or await self._is_base_worthwhile(volume, record, written)

    async def _is_base_worthwhile(self, volume: VolumeId, record: VolumeRecord, written: int) -> bool:
        """A copy of everything is worth it only after as much WAL."""
        if written < self._base_bytes:
            return False
        if self._volumes.driver.name != "plain":
            return True
        folder = self._volumes.folder(volume)
        return written >= await self._volumes.run_blocking(lambda: _data_bytes(folder), record.project_id)

    def _has_base_at(self, volume: VolumeId, end: str) -> bool:
        """Whether it began here already."""
        ends = {end for base in self._bases.list_bases(volume) for end in (base.lsn, first_reachable_lsn(base))}
        return self._read_record(volume).begins_itself and end in ends

    def _read_record(self, volume: VolumeId) -> VolumeRecord:
        record = self._archives.read_record(volume)
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.pending:
            raise EngineError("The branch's volume is still being recovered to its point.")
        return record

    def _ensure_archive(self, volume: VolumeId) -> bool:
        """Or only its history is left. Of one that is there the place for its WAL is there, too."""
        folder = self._volumes.folder(volume)
        if folder.read_record() is None:
            return False
        self._archives.ensure(volume, folder.owner)
        return True


def _data_bytes(folder: VolumeFolder) -> int:
    """Without its WAL."""
    told = measure_disk_usage(folder.data)
    try:
        with open_tenant_folder(folder.data / "pg_wal") as inside:
            its_wal = measure_disk_usage_fd(inside)
    except OSError:  # its WAL is elsewhere
        its_wal = DiskUsage(0, 0)
    return told.own + told.shared - its_wal.own - its_wal.shared
