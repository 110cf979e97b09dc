"""Prepares the files of a volume for recovery, and completes the volume when its server has shut down. Blocking."""

import struct
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import backup_label
from bough.engine.local.durable_files import sync_filesystem
from bough.engine.local.history.ancestry import Template
from bough.engine.local.history.bases import Base
from bough.engine.local.tenant_files import open_tenant_folder, read_file
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.new_volume import NewVolume
from bough.engine.port import EngineError, Origin
from bough.postgres import recovery, wal
from bough.postgres.backup import LABEL_FILE

BaseOrTemplate = Base | Template
_MAX_HISTORY_FILE_BYTES = 1024 * 1024


def restore_base(new_volume: NewVolume, base: BaseOrTemplate) -> None:
    """Clone the base without its WAL: with WAL in `pg_wal`, a server may stop before it has read the whole spool."""
    data = _data(base)
    new_volume.clone(data)
    new_volume.clone_wal(base.folder.pg_wal if isinstance(base, Base) else data / "pg_wal", ())
    label = backup_label.read_pending_label(data)
    if label is not None:
        new_volume.write_file(LABEL_FILE, label)
    new_volume.write_file(recovery.SIGNAL_FILE, "")


def base_time(base: BaseOrTemplate) -> datetime:
    """Return the time whose state the base holds."""
    if isinstance(base, Base):
        return base.at
    return datetime.fromtimestamp(read_control_file(base.data).written_at, UTC)


def finish_recovery(folder: VolumeFolder, origin: Origin) -> Origin:
    """Sync the volume, whose server ran without fsync, and clear its pending flag."""
    record = folder.read_record()
    try:
        control = read_control_file(folder.data)
        fork_lsn = recovery.parse_timeline_start(_read_history_file(folder.pg_wal, control.timeline))
    except (OSError, struct.error) as error:
        raise EngineError("The files of the recovered branch cannot be read.") from error
    if record is None or fork_lsn is None or not control.is_shut_down:
        raise EngineError("The recovery of the branch was interrupted.")
    sync_filesystem(folder.path)
    if record.has_external_wal:
        sync_filesystem(folder.pg_wal)
    final = replace(origin, lsn=fork_lsn)
    first_segment = wal.segment_name(control.timeline, lsn.to_int(fork_lsn))
    folder.write_record(replace(record.with_origin(final), first_segment=first_segment, is_pending=False))
    return final


def _data(base: BaseOrTemplate) -> Path:
    return base.folder.data if isinstance(base, Base) else base.data


def _read_history_file(pg_wal: Path, timeline: int) -> str:
    """Return the history file, in which Postgres writes where the timeline starts."""
    with open_tenant_folder(pg_wal) as folder:
        return read_file(recovery.history_file_name(timeline), folder, _MAX_HISTORY_FILE_BYTES).decode(errors="replace")
