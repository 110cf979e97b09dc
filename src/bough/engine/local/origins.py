"""The moment that a copy of a branch begins with."""

import os
import struct
from pathlib import Path

from bough import clock
from bough.domain.lsn import is_lsn
from bough.engine.local.volumes.copying import opened_file
from bough.engine.port import Origin
from bough.postgres import subscriptions
from bough.postgres.backup import BackupEnd
from bough.postgres.control_file import ControlFile

_SMALL_FILE = 8192


def of_running(end: BackupEnd, *, subscribes: bool) -> Origin:
    """The end of the backup. A tenant's code may stand in for the server, so its words are looked at."""
    return Origin(lsn=end.lsn if is_lsn(end.lsn) else None, at=clock.now(), subscribes=subscribes)


def of_stopped(data: Path, control: ControlFile) -> Origin:
    """Of one that was killed nobody knows how much of its WAL will be found good, nor what is in it."""
    if not control.shut_down:
        return Origin(at=clock.now(), subscribes=True)
    return Origin(lsn=control.checkpoint, at=clock.now(), subscribes=_subscribes(data))


def of_unopened(source: Origin) -> Origin:
    """Of a copy that no server has opened yet: what it begins with itself."""
    return Origin(lsn=source.lsn, at=clock.now(), subscribes=source.subscribes)


def _subscribes(data: Path) -> bool:
    """Told by the files of a server that was shut down; when in doubt, yes."""
    try:
        with opened_file(data / subscriptions.MAP_PATH) as file:
            catalog = subscriptions.catalog_file(os.read(file, _SMALL_FILE))
        return catalog is None or (data / catalog).lstat().st_size > 0
    except (OSError, struct.error):
        return True
