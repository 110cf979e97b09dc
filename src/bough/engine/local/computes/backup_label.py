"""The backup_label of a volume that was copied from a running server.

Postgres renames the label when it begins recovery. If the server is killed before it reaches the end of the backup, it
can never start again, because only the label says how far it must replay. Therefore the label is restored, and recovery
starts from the beginning.
"""

import struct
from pathlib import Path

from bough.engine.local.computes import wal_segments
from bough.engine.local.durable_files import sync_folder
from bough.engine.local.tenant_files import entry_exists, read_file, rename, unlink
from bough.engine.local.volumes.control_files import read_control_file
from bough.postgres.backup import LABEL_FILE, OLD_LABEL_FILE, parse_first_segment

_MAX_LABEL_BYTES = 8192  # Postgres writes a few hundred
_SIGNAL_FILES = ("recovery.signal", "standby.signal")  # with one of these a server needs no label


def read_pending_label(data: Path) -> str | None:
    """Return the label that the next server of the data directory recovers with."""
    try:
        return _read(LABEL_FILE, data)
    except FileNotFoundError:
        return None


def restore_label(data: Path, wal: Path) -> None:
    """Restore the label after an interrupted recovery if its WAL still exists in `wal`. No server may be running."""
    if _is_interrupted(data, wal):
        rename(OLD_LABEL_FILE, LABEL_FILE, data)
        sync_folder(data)


def remove_used_label(data: Path) -> None:
    """Remove the label of a finished recovery.

    Otherwise a standby that is killed later looks like one whose recovery was interrupted.
    """
    unlink(OLD_LABEL_FILE, data)


def _is_interrupted(data: Path, wal: Path) -> bool:
    if any(entry_exists(name, data) for name in (LABEL_FILE, *_SIGNAL_FILES)):
        return False
    try:
        first = parse_first_segment(_read(OLD_LABEL_FILE, data))
        control = read_control_file(data)
    except (OSError, struct.error):
        return False
    return control.is_recovering_from_backup and first is not None and wal_segments.has_file(wal, first)


def _read(name: str, data: Path) -> str:
    return read_file(name, data, _MAX_LABEL_BYTES).decode(errors="replace")
