"""The files of a volume that is recovered to a point: what its server begins with, and what it leaves. Blocking."""

import struct
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import backup_label, wal_segments
from bough.engine.local.durable_files import sync_filesystem
from bough.engine.local.history.ancestry import Template
from bough.engine.local.history.bases import Base
from bough.engine.local.tenant_files import open_tenant_folder, read_file
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import NewVolume
from bough.engine.port import EngineError, Origin
from bough.postgres import recovery, wal
from bough.postgres.backup import LABEL_FILE

BaseOrTemplate = Base | Template
_LONGEST_HISTORY = 1024 * 1024


def restore_base(new_volume: NewVolume, base: BaseOrTemplate) -> None:
    """Without WAL: with some in its own folder a server may stop before it has read all that it must."""
    data = _data(base)
    new_volume.clone(data)
    new_volume.clone_wal(base.folder.pg_wal if isinstance(base, Base) else data / "pg_wal", ())
    label = backup_label.read_pending_label(data)
    if label is not None:
        new_volume.write_file(LABEL_FILE, label)
    new_volume.write_file(recovery.SIGNAL_FILE, "")


def base_time(base: BaseOrTemplate) -> datetime:
    """When it was as it is."""
    if isinstance(base, Base):
        return base.at
    return datetime.fromtimestamp(wal_segments.read_control_file(base.data).written_at, UTC)


def finish_recovery(folder: VolumeFolder, origin: Origin) -> Origin:
    """The volume is whole, and a branch's. Its server, which has ended, synced nothing."""
    record = folder.read_record()
    try:
        control = wal_segments.read_control_file(folder.data)
        begins = recovery.parse_timeline_start(_history(folder.pg_wal, control.timeline))
    except (OSError, struct.error) as error:
        raise EngineError("The recovered branch cannot be read.") from error
    if record is None or begins is None or not control.is_shut_down:
        raise EngineError("The recovery to the point was cut short.")
    sync_filesystem(folder.path)
    if record.wal_apart:
        sync_filesystem(folder.pg_wal)
    whole = replace(origin, lsn=begins)
    first = wal.segment_name(control.timeline, lsn.to_int(begins))
    folder.write_record(replace(record.with_origin(whole), first_segment=first, pending=False))
    return whole


def _data(ground: BaseOrTemplate) -> Path:
    return ground.folder.data if isinstance(ground, Base) else ground.data


def _history(folder: Path, timeline: int) -> str:
    """By which a server says where its timeline begins."""
    with open_tenant_folder(folder) as here:
        return read_file(recovery.history_file_name(timeline), here, _LONGEST_HISTORY).decode(errors="replace")
