"""The files of a volume that is recovered to a point: what its server begins with, and what it leaves. Blocking."""

import struct
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import labels, segments
from bough.engine.local.durable import sync_filesystem
from bough.engine.local.history.ancestry import Template
from bough.engine.local.history.bases import Base
from bough.engine.local.tenant_files import opened_tenant_folder, read_file
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import NewVolume
from bough.engine.port import EngineError, Origin
from bough.postgres import recovery, wal
from bough.postgres.backup import LABEL_FILE

Ground = Base | Template
_LONGEST_HISTORY = 1024 * 1024


def lay(made: NewVolume, ground: Ground) -> None:
    """Without WAL: with some in its own folder a server may stop before it has read all that it must."""
    data = _data(ground)
    made.clone(data)
    made.clone_wal(ground.folder.wal if isinstance(ground, Base) else data / "pg_wal", ())
    label = labels.waiting(data)
    if label is not None:
        made.write(LABEL_FILE, label)
    made.write(recovery.SIGNAL_FILE, "")


def moment_of(ground: Ground) -> datetime:
    """When it was as it is."""
    if isinstance(ground, Base):
        return ground.at
    return datetime.fromtimestamp(segments.control(ground.data).written_at, UTC)


def finish(folder: VolumeFolder, origin: Origin) -> Origin:
    """The volume is whole, and a branch's. Its server, which has ended, synced nothing."""
    record = folder.read()
    try:
        control = segments.control(folder.data)
        begins = recovery.begins_at(_history(folder.wal, control.timeline))
    except (OSError, struct.error) as error:
        raise EngineError("The recovered branch cannot be read.") from error
    if record is None or begins is None or not control.shut_down:
        raise EngineError("The recovery to the point was cut short.")
    sync_filesystem(folder.path)
    if record.wal_apart:
        sync_filesystem(folder.wal)
    whole = replace(origin, lsn=begins)
    first = wal.segment_name(control.timeline, lsn.number(begins))
    folder.write(replace(record.begun(whole), first_segment=first, pending=False))
    return whole


def _data(ground: Ground) -> Path:
    return ground.folder.data if isinstance(ground, Base) else ground.data


def _history(folder: Path, timeline: int) -> str:
    """By which a server says where its timeline begins."""
    with opened_tenant_folder(folder) as here:
        return read_file(recovery.history_name(timeline), here, _LONGEST_HISTORY).decode(errors="replace")
