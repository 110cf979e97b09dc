"""The moment that a copy of a branch begins with."""

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bough import clock
from bough.domain import lsn
from bough.domain.history import Point
from bough.domain.lsn import is_lsn
from bough.engine.local.computes import backup_label, wal_segments
from bough.engine.local.tenant_files import read_file, stat_file
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.port import Origin
from bough.postgres import subscriptions
from bough.postgres.backup import BackupEnd
from bough.postgres.control_file import ControlFile

_LARGEST_MAP = 8192  # bytes of a file that says which file is which catalog


class VolumeStart(NamedTuple):
    """A new volume's beginning."""

    origin: Origin
    recovery_segment: str  # the segment in which its first server begins to read
    first_segment: str | None  # in which its own WAL begins; None: its parent's record does not say


def is_unchanged_since(data: Path, record: VolumeRecord, point: Point) -> bool:
    """Whether nothing was written after the point in a data folder that nobody serves; when in doubt, no."""
    if backup_label.read_pending_label(data) is not None:
        return _is_after(point, record.origin.at, record.lsn)
    try:
        control = wal_segments.read_control_file(data)
    except (OSError, struct.error):
        return False
    if not control.is_shut_down:
        return False
    return _is_after(point, datetime.fromtimestamp(control.written_at + 1, UTC), control.checkpoint)


def _is_after(point: Point, at: datetime | None, position: str | None) -> bool:
    if point.at is not None:
        return at is not None and point.at >= at
    return point.lsn is not None and position is not None and lsn.to_int(point.lsn) >= lsn.to_int(position)


def from_backup(end: BackupEnd, *, subscribes: bool) -> Origin:
    """The end of the backup. A tenant's code may stand in for the server, so its words are looked at."""
    return Origin(lsn=end.lsn if is_lsn(end.lsn) else None, at=clock.now(), has_subscriptions=subscribes)


def from_control_file(data: Path, control: ControlFile) -> Origin:
    """Of one that was killed nobody knows how much of its WAL will be found good, nor what is in it."""
    if not control.is_shut_down:
        return Origin(at=clock.now(), has_subscriptions=True)
    return Origin(lsn=control.checkpoint, at=clock.now(), has_subscriptions=_subscribes(data))


def from_unopened_copy(source: Origin) -> Origin:
    """Of a copy that no server has opened yet: what it begins with itself."""
    return Origin(lsn=source.lsn, at=clock.now(), has_subscriptions=source.has_subscriptions)


def _subscribes(data: Path) -> bool:
    """Told by the files of a server that was shut down; when in doubt, yes."""
    try:
        catalog = subscriptions.find_catalog_file(read_file(subscriptions.MAP_PATH, data, _LARGEST_MAP))
        return catalog is None or stat_file(catalog, data).st_size > 0
    except (OSError, struct.error):
        return True
