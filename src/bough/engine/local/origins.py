"""Determines the origin of a copy: the point of its parent that it starts with."""

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bough import clock
from bough.domain import lsn
from bough.domain.history import Point
from bough.domain.lsn import is_lsn
from bough.engine.local.computes import backup_label
from bough.engine.local.tenant_files import read_file, stat_file
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.port import Origin
from bough.postgres import subscriptions
from bough.postgres.backup import BackupEnd
from bough.postgres.control_file import ControlFile

_MAX_MAP_BYTES = 8192  # of pg_filenode.map


class VolumeStart(NamedTuple):
    """Where a new volume starts."""

    origin: Origin
    recovery_segment: str  # the first segment that its server reads
    first_segment: str | None  # of its own WAL; None if its parent's record does not say


def is_unchanged_since(data: Path, record: VolumeRecord, point: Point) -> bool:
    """Return whether a stopped volume was not written to after the point; False if that is unknown."""
    if backup_label.read_pending_label(data) is not None:
        return _is_after(point, record.origin.at, record.origin_lsn)
    try:
        control = read_control_file(data)
    except (OSError, struct.error):
        return False
    if not control.is_shut_down:
        return False
    return _is_after(point, datetime.fromtimestamp(control.written_at + 1, UTC), control.checkpoint)


def _is_after(point: Point, at: datetime | None, position: str | None) -> bool:
    if point.at is not None:
        return at is not None and point.at >= at
    return point.lsn is not None and position is not None and lsn.to_int(point.lsn) >= lsn.to_int(position)


def from_backup(end: BackupEnd, *, has_subscriptions: bool) -> Origin:
    """The origin is the end of the backup. The LSN is checked, because a tenant's code may impersonate the server."""
    return Origin(lsn=end.lsn if is_lsn(end.lsn) else None, at=clock.now(), has_subscriptions=has_subscriptions)


def from_control_file(data: Path, control: ControlFile) -> Origin:
    """If the server was killed, it is unknown how much of its WAL is valid and what it contains."""
    if not control.is_shut_down:
        return Origin(at=clock.now(), has_subscriptions=True)
    return Origin(lsn=control.checkpoint, at=clock.now(), has_subscriptions=_has_subscriptions(data))


def from_unopened_copy(source: Origin) -> Origin:
    """The origin of a copy that no server has opened yet is also that of its copies."""
    return Origin(lsn=source.lsn, at=clock.now(), has_subscriptions=source.has_subscriptions)


def _has_subscriptions(data: Path) -> bool:
    """Determine it from the files of a server that was shut down; True if it is unknown."""
    try:
        catalog = subscriptions.find_catalog_file(read_file(subscriptions.MAP_PATH, data, _MAX_MAP_BYTES))
        return catalog is None or stat_file(catalog, data).st_size > 0
    except (OSError, struct.error):
        return True
