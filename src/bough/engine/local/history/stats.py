"""How the history of a volume stands: since when, how large, and what holds it up."""

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
from bough.engine.local.history.wal_archives import UnarchivedFile
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.disk_usage import measure_disk_usage
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, HistoryStatus
from bough.ids import VolumeId
from bough.postgres import archiver, wal

_LONG = 60.0  # seconds that a file waits to be archived before that is trouble
_MEASURED_FOR = 600.0  # seconds; to measure a base means to look at each of its files


class VolumeHistoryStats:
    def __init__(self, volumes: Volumes, lineages: LineageReader, running: RunningComputes) -> None:
        self._volumes = volumes
        self._archives = lineages.archives
        self._lineages = lineages
        self._running = running
        self._measured: dict[VolumeId, tuple[float, int]] = {}

    async def measure(self, volume: VolumeId, record: VolumeRecord, trouble: str | None = None) -> HistoryStatus:
        project = record.project_id
        began_at, began_lsn = await run_shielded(lambda: self._began(volume, record))
        waiting = await self._volumes.run_blocking(
            lambda: self._archives.list_unarchived(self._volumes.folder(volume)), project
        )
        return HistoryStatus(
            began_at=began_at,
            began_lsn=began_lsn,
            history_bytes=await self._volumes.run_blocking(lambda: self._bytes(volume), project),
            waiting_bytes=len(waiting) * wal.SEGMENT_BYTES,
            trouble=" ".join(filter(None, (trouble, await self._explain_delay(volume, waiting)))) or None,
        )

    def is_start_reachable(self, volume: VolumeId) -> bool:
        """Whether its beginning can be reached by what it stands on, or by a base as old as itself."""
        return _is_start_reachable(self._lineages.read(volume))

    def _began(self, volume: VolumeId, record: VolumeRecord) -> tuple[datetime | None, str | None]:
        """The first point of its own life that can be gone back to."""
        ancestry = self._lineages.read(volume)
        if _is_start_reachable(ancestry):
            at = record.at or record.made_at
            template = ancestry.template.lsn if ancestry.template else None
            return (datetime.fromisoformat(at) if at else None), record.lsn or template
        own = ancestry.lineages[0].bases if ancestry.lineages else []
        first = next((base for base in own if isinstance(base, Base)), None)
        return (first.at, first_reachable_lsn(first)) if first else (None, None)

    def _bytes(self, volume: VolumeId) -> int:
        """Archived WAL, and what bases alone hold."""
        known = self._volumes.list_bases(volume)
        return self._archives.measure_bytes(volume) + sum(map(self._own_bytes, known))

    def _own_bytes(self, base: VolumeId) -> int:
        at, told = self._measured.get(base, (0.0, 0))
        now = clock.monotonic()
        if not at or now - at > _MEASURED_FOR:
            told = measure_own_bytes(self._volumes, base) or 0
            self._measured = {name: each for name, each in self._measured.items() if now - each[0] <= _MEASURED_FOR}
            self._measured[base] = (now, told)
        return told

    async def _explain_delay(self, volume: VolumeId, waiting: list[UnarchivedFile]) -> str | None:
        """Of one that sleeps nothing is archived, and nothing is lost."""
        oldest = max((each.age_seconds for each in waiting), default=0.0)
        sockets = await self._running.find_volume_sockets(volume) if oldest > _LONG else None
        if sockets is None:
            return None
        reason = ""
        with suppress(EngineError):
            async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as ours:
                for row in await ours.fetch(archiver.SELECT_LAST_FAILURE):
                    file, at = (
                        query_results.parse_text(row["file"], query_results.MAX_NAME_BYTES),
                        query_results.parse_timestamp(row["at"]),
                    )
                    reason = f" Postgres says that it could not archive {file} at {at:%H:%M:%S} UTC."
        many = f"{len(waiting)} WAL files" if len(waiting) > 1 else "A WAL file"
        wait = "wait" if len(waiting) > 1 else "waits"
        place = self._archives.folder(volume)
        return f"{many} {wait} to be archived in {place}, the oldest for {oldest / 60:.0f} min.{reason}"


def _is_start_reachable(ancestry: Ancestry) -> bool:
    if not ancestry.lineages:
        return False
    forks_at = ancestry.lineages[0].fork_position
    if len(ancestry.lineages) == 1 and ancestry.template is not None:  # a root: where the template ends, it begins
        forks_at = max(forks_at, lsn.to_int(ancestry.template.lsn))
    begins = Point(lsn=lsn.to_text(forks_at))
    return bool(plan_recovery(ancestry.lineages, ancestry.template, begins))


def measure_own_bytes(volumes: Volumes, volume: VolumeId) -> int | None:
    """Bytes on disk that no other volume shares, with its WAL; None when it does not exist."""
    folder = volumes.folder(volume)
    try:
        record = folder.read_record()
        if record is None:
            return None
        apart = measure_disk_usage(folder.external_wal).own if record.wal_apart and folder.external_wal.is_dir() else 0
        return measure_disk_usage(folder.path).own + apart
    except FileNotFoundError:
        return None


def first_reachable_lsn(base: Base) -> str:
    """From which position on: a server that was shut down has to read its last record once more."""
    if backup_label.read_pending_label(base.folder.data) is not None:
        return base.lsn
    return lsn.to_text(wal.checkpoint_end(lsn.to_int(base.lsn)))
