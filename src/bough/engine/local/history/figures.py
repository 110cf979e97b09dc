"""How the history of a volume stands: since when, how large, and what holds it up."""

from contextlib import suppress
from datetime import datetime

from bough import clock
from bough.domain import lsn
from bough.domain.history import Point
from bough.engine.local.computes import answers, labels, session
from bough.engine.local.computes.living import Living
from bough.engine.local.history.ancestry import Ancestry, Lives
from bough.engine.local.history.archives import Waiting
from bough.engine.local.history.bases import Base
from bough.engine.local.history.planning import plans
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.sizes import sizes
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Kept
from bough.ids import VolumeId
from bough.postgres import archiving, wal

_LONG = 60.0  # seconds that a file waits to be archived before that is trouble
_MEASURED_FOR = 600.0  # seconds; to measure a base means to look at each of its files


class Figures:
    def __init__(self, volumes: Volumes, lives: Lives, living: Living) -> None:
        self._volumes = volumes
        self._archives = lives.archives
        self._lives = lives
        self._living = living
        self._measured: dict[VolumeId, tuple[float, int]] = {}

    async def of(self, volume: VolumeId, record: VolumeRecord, trouble: str | None = None) -> Kept:
        project = record.project_id
        began_at, began_lsn = await unbroken(lambda: self._began(volume, record))
        waiting = await self._volumes.work(lambda: self._archives.waiting_now(self._volumes.folder(volume)), project)
        return Kept(
            began_at=began_at,
            began_lsn=began_lsn,
            history_bytes=await self._volumes.work(lambda: self._bytes(volume), project),
            waiting_bytes=len(waiting) * wal.SEGMENT_BYTES,
            trouble=" ".join(filter(None, (trouble, await self._trouble(volume, waiting)))) or None,
        )

    def is_grounded(self, volume: VolumeId) -> bool:
        """Whether its beginning can be reached by what it stands on, or by a base as old as itself."""
        return _is_grounded(self._lives.of(volume))

    def _began(self, volume: VolumeId, record: VolumeRecord) -> tuple[datetime | None, str | None]:
        """The first point of its own life that can be gone back to."""
        ancestry = self._lives.of(volume)
        if _is_grounded(ancestry):
            at = record.at or record.made_at
            template = ancestry.template.lsn if ancestry.template else None
            return (datetime.fromisoformat(at) if at else None), record.lsn or template
        own = ancestry.lives[0].bases if ancestry.lives else []
        first = next((base for base in own if isinstance(base, Base)), None)
        return (first.at, reached(first)) if first else (None, None)

    def _bytes(self, volume: VolumeId) -> int:
        """Archived WAL, and what bases alone hold."""
        known = self._volumes.bases(volume)
        return self._archives.bytes(volume) + sum(map(self._own_bytes, known))

    def _own_bytes(self, base: VolumeId) -> int:
        at, told = self._measured.get(base, (0.0, 0))
        now = clock.monotonic()
        if not at or now - at > _MEASURED_FOR:
            told = own_bytes(self._volumes, base) or 0
            self._measured = {name: each for name, each in self._measured.items() if now - each[0] <= _MEASURED_FOR}
            self._measured[base] = (now, told)
        return told

    async def _trouble(self, volume: VolumeId, waiting: list[Waiting]) -> str | None:
        """Of one that sleeps nothing is archived, and nothing is lost."""
        oldest = max((each.seconds for each in waiting), default=0.0)
        sockets = await self._living.sockets_of(volume) if oldest > _LONG else None
        if sockets is None:
            return None
        reason = ""
        with suppress(EngineError):
            async with session.opened(sockets, limits=session.LOOK) as ours:
                for row in await ours.rows(archiving.FAILED):
                    file, at = answers.text(row["file"], answers.MOST_OF_A_NAME), answers.moment(row["at"])
                    reason = f" Postgres says that it could not archive {file} at {at:%H:%M:%S} UTC."
        many = f"{len(waiting)} WAL files" if len(waiting) > 1 else "A WAL file"
        wait = "wait" if len(waiting) > 1 else "waits"
        place = self._archives.folder(volume)
        return f"{many} {wait} to be archived in {place}, the oldest for {oldest / 60:.0f} min.{reason}"


def _is_grounded(ancestry: Ancestry) -> bool:
    if not ancestry.lives:
        return False
    forks_at = ancestry.lives[0].forks_at
    if len(ancestry.lives) == 1 and ancestry.template is not None:  # a root: where the template ends, it begins
        forks_at = max(forks_at, lsn.number(ancestry.template.lsn))
    begins = Point(lsn=lsn.text(forks_at))
    return bool(plans(ancestry.lives, ancestry.template, begins))


def own_bytes(volumes: Volumes, volume: VolumeId) -> int | None:
    """Bytes on disk that no other volume shares, with its WAL; None when it does not exist."""
    folder = volumes.folder(volume)
    try:
        record = folder.read()
        if record is None:
            return None
        apart = sizes(folder.wal_apart).own if record.wal_apart and folder.wal_apart.is_dir() else 0
        return sizes(folder.path).own + apart
    except FileNotFoundError:
        return None


def reached(base: Base) -> str:
    """From which position on: a server that was shut down has to read its last record once more."""
    if labels.waiting(base.folder.data) is not None:
        return base.lsn
    return lsn.text(wal.end_of_checkpoint(lsn.number(base.lsn)))
