"""The label of the backup that a volume was copied by: needed until a server has recovered by it.

A server takes the label away when it begins to recover. If it is killed before it has read to the end
of the backup, it would never start again, because only the label says how far it has to read. So the
label is put back, and the recovery begins anew.
"""

import os
import struct
from pathlib import Path

from bough.engine.local.durable import sync_folder
from bough.engine.local.volumes.copying import opened_file
from bough.postgres.backup import LABEL_FILE, TAKEN_LABEL_FILE, first_segment
from bough.postgres.control_file import PATH as CONTROL_FILE
from bough.postgres.control_file import ControlFile

_SMALL_FILE = 8192
_SIGNALS = ("recovery.signal", "standby.signal")  # with one of these a server knows by itself what it is to do


def waiting(data: Path) -> str | None:
    """The label by which the next server of the data folder will recover."""
    try:
        return _read(data / LABEL_FILE).decode(errors="replace")
    except FileNotFoundError:
        return None


def put_back(data: Path) -> None:
    """After a recovery that was cut off, while the WAL it needs is still there. No server may run."""
    if _is_cut_off(data):
        (data / TAKEN_LABEL_FILE).rename(data / LABEL_FILE)
        sync_folder(data)


def forget(data: Path) -> None:
    """After a recovery that came to its end: from now on a standby that is killed looks as if it had not."""
    (data / TAKEN_LABEL_FILE).unlink(missing_ok=True)


def _is_cut_off(data: Path) -> bool:
    if any(os.path.lexists(data / name) for name in (LABEL_FILE, *_SIGNALS)):
        return False
    try:
        first = first_segment(_read(data / TAKEN_LABEL_FILE).decode(errors="replace"))
        control = ControlFile.parse(_read(data / CONTROL_FILE))
    except (OSError, struct.error):
        return False
    return control.recovers_from_backup and first is not None and os.path.lexists(data / "pg_wal" / first)


def _read(path: Path) -> bytes:
    with opened_file(path) as file:
        return os.read(file, _SMALL_FILE)
