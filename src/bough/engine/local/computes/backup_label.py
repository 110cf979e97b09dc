"""The label of the backup that a volume was copied by: needed until a server has recovered by it.

A server takes the label away when it begins to recover. If it is killed before it has read to the end
of the backup, it would never start again, because only the label says how far it has to read. So the
label is put back, and the recovery begins anew.
"""

import struct
from pathlib import Path

from bough.engine.local.computes import wal_segments
from bough.engine.local.durable_files import sync_folder
from bough.engine.local.tenant_files import entry_exists, read_file, rename, unlink
from bough.postgres.backup import LABEL_FILE, OLD_LABEL_FILE, parse_first_segment

_LARGEST_LABEL = 8192  # bytes; Postgres writes some hundred
_SIGNALS = ("recovery.signal", "standby.signal")  # with one of these a server knows by itself what it is to do


def read_pending_label(data: Path) -> str | None:
    """The label by which the next server of the data folder will recover."""
    try:
        return _read(LABEL_FILE, data)
    except FileNotFoundError:
        return None


def restore_label(data: Path, wal: Path) -> None:
    """After a recovery that was cut off, while the WAL it needs, in `wal`, is still there. No server may run."""
    if _is_cut_off(data, wal):
        rename(OLD_LABEL_FILE, LABEL_FILE, data)
        sync_folder(data)


def remove_used_label(data: Path) -> None:
    """After a recovery that came to its end: from now on a standby that is killed looks as if it had not."""
    unlink(OLD_LABEL_FILE, data)


def _is_cut_off(data: Path, wal: Path) -> bool:
    if any(entry_exists(name, data) for name in (LABEL_FILE, *_SIGNALS)):
        return False
    try:
        first = parse_first_segment(_read(OLD_LABEL_FILE, data))
        control = wal_segments.read_control_file(data)
    except (OSError, struct.error):
        return False
    return control.is_recovering_from_backup and first is not None and wal_segments.has_file(wal, first)


def _read(name: str, data: Path) -> str:
    return read_file(name, data, _LARGEST_LABEL).decode(errors="replace")
