"""Maintains the history of a volume: takes bases when they are due and prunes what is older than the retention.

A new volume needs no base, because recovery starts from its parent or from the template. It gets one when replaying
its WAL would take long, and before its parent would have to retain history for this volume alone.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock
from bough.domain import lsn
from bough.engine.local.history.ancestry import LineageReader
from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.pruner import HistoryPruner
from bough.engine.local.history.return_bases import ReturnBases
from bough.engine.local.history.stats import VolumeHistoryStats, first_reachable_lsn
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.history.wal_end import WalEndReader
from bough.engine.local.tenant_files import open_tenant_folder
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.disk_usage import DiskUsage, measure_disk_usage, measure_disk_usage_fd
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, HistoryStatus
from bough.ids import VolumeId

_MIN_RETENTION = timedelta(seconds=5)  # a shorter retention means no history
_OWN_BASE_AFTER = timedelta(hours=1)  # age of a child that writes; many are deleted earlier
_MAX_ATTEMPTS = 3  # of taking a base, before a transient error is reported
_MIN_WRITTEN_BYTES = 64 * 1024  # of WAL; a start and a stop write less


class HistoryMaintenance:
    def __init__(
        self,
        volumes: Volumes,
        archives: WalArchives,
        bases: Bases,
        lineages: LineageReader,
        *,
        wal_end: WalEndReader,
        stats: VolumeHistoryStats,
        pruner: HistoryPruner,
        return_bases: ReturnBases,
        explain_shortage: Callable[[], str | None],
        base_bytes: int,
    ) -> None:
        self._volumes = volumes
        self._archives = archives
        self._bases = bases
        self._lineages = lineages
        self._wal_end = wal_end
        self._stats = stats
        self._pruner = pruner
        self._return_bases = return_bases
        self._explain_shortage = explain_shortage
        self._base_bytes = base_bytes
        self._failures: Counter[VolumeId] = Counter()
        self._locks = NamedLocks()  # separate from the volume locks: a compute may start during maintenance

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        now = clock.now()
        retained_since = since if now - since > _MIN_RETENTION else None
        async with self._locks.lock(volume):
            record = await asyncio.to_thread(self._read_record, volume)
            is_due = False
            if await run_shielded(lambda: self._ensure_wal_archive(volume)) and retained_since is not None:
                is_due = await self._is_due(volume, record, retained_since, now)
            is_due = is_due or await self._return_bases.is_awaited(volume, has_history=retained_since is not None)
            problem = await self._take_due_base(volume, record) if is_due and take_bases else None
            await self._pruner.prune(volume, record, retained_since)
            status = await self._stats.measure(volume, await asyncio.to_thread(self._read_record, volume), problem)
        return replace(status, is_base_due=is_due and not take_bases)

    async def start_history(self, volume: VolumeId) -> HistoryStatus:
        """Make the current state of the volume its earliest point. No compute runs on the volume."""
        async with self._locks.lock(volume):
            record = await asyncio.to_thread(self._read_record, volume)
            end = await self._wal_end.read_wal_end(volume)
            if end is None:
                raise EngineError("The branch's history cannot start: its compute is running or was killed.")
            if not await asyncio.to_thread(self._has_base_at, volume, end):
                if shortage := await asyncio.to_thread(self._explain_shortage):
                    raise EngineError(shortage, transient=False)
                if await self._take_base(volume, record) is None:
                    raise EngineError("The branch's history cannot start: its data cannot be copied now.")
            record = replace(record, is_self_contained=True)
            await run_shielded(lambda: self._volumes.folder(volume).write_record(record))
            await self._pruner.prune(volume, record, clock.now())
            return await self._stats.measure(volume, record)

    async def _take_due_base(self, volume: VolumeId, record: VolumeRecord) -> str | None:
        """Return why no base was taken. A transient error is reported only if it persists."""
        if shortage := await asyncio.to_thread(self._explain_shortage):
            return f"No base is taken, so restores take longer. {shortage}"
        try:
            await self._take_base(volume, record)
        except EngineError as error:
            self._failures[volume] += 1
            if error.transient and self._failures[volume] < _MAX_ATTEMPTS:
                return None
            return f"No base could be taken: {error.public_message}"
        self._failures.pop(volume, None)
        return None

    async def _take_base(self, volume: VolumeId, record: VolumeRecord) -> Base | None:
        return await self._bases.take(volume, record)

    async def _is_due(self, volume: VolumeId, record: VolumeRecord, since: datetime, now: datetime) -> bool:
        end = await self._wal_end.read_wal_end(volume)
        if end is None:
            return False
        bases = await asyncio.to_thread(self._bases.list_bases, volume)
        if bases:
            return await self._is_base_worthwhile(volume, record, lsn.to_int(end) - lsn.to_int(bases[-1].lsn))
        if not await asyncio.to_thread(self._stats.is_start_reachable, volume):
            return await self._wal_end.is_archiving(volume)
        lineage = (await asyncio.to_thread(self._lineages.read, volume)).lineages[0]
        written = lsn.to_int(end) - lineage.fork_position
        if record.source_volume_id is None:
            return await self._is_base_worthwhile(volume, record, written)
        began_at = record.origin.at or now
        if began_at <= since:
            return True
        is_old = now - began_at > min(_OWN_BASE_AFTER, (now - since) / 8)
        has_written = written > _MIN_WRITTEN_BYTES and self._volumes.driver.name != "plain"
        return (has_written and is_old) or await self._is_base_worthwhile(volume, record, written)

    async def _is_base_worthwhile(self, volume: VolumeId, record: VolumeRecord, written: int) -> bool:
        """With the plain driver a base is a full copy, which pays off only after as much WAL."""
        if written < self._base_bytes:
            return False
        if self._volumes.driver.name != "plain":
            return True
        folder = self._volumes.folder(volume)
        return written >= await self._volumes.run_blocking(lambda: _data_bytes(folder), record.project_id)

    def _has_base_at(self, volume: VolumeId, end: str) -> bool:
        """Return whether the history already starts at this LSN."""
        starts = {start for base in self._bases.list_bases(volume) for start in (base.lsn, first_reachable_lsn(base))}
        return self._read_record(volume).is_self_contained and end in starts

    def _read_record(self, volume: VolumeId) -> VolumeRecord:
        record = self._archives.read_record(volume)
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.is_pending:
            raise EngineError("The branch's volume is still being recovered.")
        return record

    def _ensure_wal_archive(self, volume: VolumeId) -> bool:
        """Ensure that the volume has an archive; False if the volume is retired."""
        folder = self._volumes.folder(volume)
        if folder.read_record() is None:
            return False
        self._volumes.ensure_wal_archive(volume, folder.owner)
        return True


def _data_bytes(folder: VolumeFolder) -> int:
    """Return the bytes on disk of the data directory without its WAL."""
    total = measure_disk_usage(folder.data)
    try:
        with open_tenant_folder(folder.data / "pg_wal") as pg_wal:
            wal = measure_disk_usage_fd(pg_wal)
    except OSError:  # `pg_wal` is a link: the WAL is outside the data directory
        wal = DiskUsage(0, 0)
    return total.own + total.shared - wal.own - wal.shared
