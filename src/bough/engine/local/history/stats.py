"""Measures the history of a volume: its earliest point, its size, and WAL that waits to be archived."""

from contextlib import suppress
from datetime import datetime

from bough import clock
from bough.domain import lsn
from bough.domain.history import Point
from bough.engine.local.computes import backup_label, query_results, session
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.history.ancestry import Ancestry, LineageReader
from bough.engine.local.history.bases import Base
from bough.engine.local.history.recovery_plan import plan_recovery
from bough.engine.local.history.wal_archives import UnarchivedFile, WalArchives
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.disk_usage import measure_own_bytes
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, HistoryStatus
from bough.ids import VolumeId
from bough.postgres import archiver, wal

_MAX_DELAY_SECONDS = 60.0  # a file that waits longer to be archived is reported
_BASE_SIZE_TTL_SECONDS = 600.0  # measuring a base means reading the extents of all its files


class VolumeHistoryStats:
    def __init__(
        self, volumes: Volumes, archives: WalArchives, lineages: LineageReader, running: RunningComputes
    ) -> None:
        self._volumes = volumes
        self._archives = archives
        self._lineages = lineages
        self._running = running
        self._base_sizes: dict[VolumeId, tuple[float, int]] = {}  # when measured, bytes

    async def measure(self, volume: VolumeId, record: VolumeRecord, problem: str | None = None) -> HistoryStatus:
        project = record.project_id
        began_at, began_lsn = await run_shielded(lambda: self._find_start(volume, record))
        unarchived = await self._volumes.run_blocking(
            lambda: self._archives.list_unarchived(self._volumes.folder(volume)), project
        )
        return HistoryStatus(
            began_at=began_at,
            began_lsn=began_lsn,
            history_bytes=await self._volumes.run_blocking(lambda: self._bytes(volume), project),
            waiting_bytes=len(unarchived) * wal.SEGMENT_BYTES,
            problem=" ".join(filter(None, (problem, await self._explain_delay(volume, unarchived)))) or None,
        )

    def is_start_reachable(self, volume: VolumeId) -> bool:
        """Return whether the first state of the volume can be recovered: from what it depends on, or from its base."""
        return _is_start_reachable(self._lineages.read(volume))

    def _find_start(self, volume: VolumeId, record: VolumeRecord) -> tuple[datetime | None, str | None]:
        """Return the earliest point of the volume itself that can be recovered."""
        ancestry = self._lineages.read(volume)
        if _is_start_reachable(ancestry):
            at = record.origin_at or record.assigned_at
            template_lsn = ancestry.template.lsn if ancestry.template else None
            return (datetime.fromisoformat(at) if at else None), record.origin_lsn or template_lsn
        bases = ancestry.lineages[0].bases if ancestry.lineages else []
        first = next((base for base in bases if isinstance(base, Base)), None)
        return (first.at, first_reachable_lsn(first)) if first else (None, None)

    def _bytes(self, volume: VolumeId) -> int:
        """Return the bytes of archived WAL and those that only bases hold."""
        bases = self._volumes.list_bases(volume)
        return self._archives.measure_bytes(volume) + sum(map(self._measure_base, bases))

    def _measure_base(self, base: VolumeId) -> int:
        now = clock.monotonic()
        cached = self._base_sizes.get(base)
        if cached is not None and now - cached[0] <= _BASE_SIZE_TTL_SECONDS:
            return cached[1]
        size = measure_own_bytes(self._volumes.folder(base)) or 0
        self._base_sizes = {
            name: each for name, each in self._base_sizes.items() if now - each[0] <= _BASE_SIZE_TTL_SECONDS
        }
        self._base_sizes[base] = (now, size)
        return size

    async def _explain_delay(self, volume: VolumeId, unarchived: list[UnarchivedFile]) -> str | None:
        """Return None for a stopped volume: it archives nothing, and loses nothing."""
        oldest = max((each.age_seconds for each in unarchived), default=0.0)
        sockets = await self._running.find_volume_sockets(volume) if oldest > _MAX_DELAY_SECONDS else None
        if sockets is None:
            return None
        reason = ""
        with suppress(EngineError):
            async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as connection:
                for row in await connection.fetch(archiver.SELECT_LAST_FAILURE):
                    file, at = (
                        query_results.parse_text(row["file"], query_results.MAX_NAME_BYTES),
                        query_results.parse_timestamp(row["at"]),
                    )
                    reason = f" Postgres failed to archive {file} at {at:%H:%M:%S} UTC."
        files = f"{len(unarchived)} WAL files wait" if len(unarchived) > 1 else "A WAL file waits"
        folder = self._volumes.wal_archive_path(volume)
        return f"{files} to be archived in {folder}, the oldest for {oldest / 60:.0f} min.{reason}"


def _is_start_reachable(ancestry: Ancestry) -> bool:
    if not ancestry.lineages:
        return False
    start = ancestry.lineages[0].fork_position
    if len(ancestry.lineages) == 1 and ancestry.template is not None:  # a root branch starts where the template ends
        start = max(start, lsn.to_int(ancestry.template.lsn))
    return bool(plan_recovery(ancestry.lineages, ancestry.template, Point(lsn=lsn.to_text(start))))


def first_reachable_lsn(base: Base) -> str:
    """Return the first LSN at which a recovery from the base can stop.

    A server that was shut down first reads its last checkpoint record again.
    """
    if backup_label.read_pending_label(base.folder.data) is not None:
        return base.lsn
    return lsn.to_text(wal.checkpoint_end(lsn.to_int(base.lsn)))
