"""Retires a volume that no branch uses any more: its data is removed, its WAL up to the last commit is kept.

WAL that its server has not archived is archived here. The folders belong to a tenant: they are held open, and no
link in them is followed.
"""

import os
from collections.abc import Callable
from pathlib import Path

from bough.engine.local.computes import wal_segments
from bough.engine.local.durable_files import sync_folder_fd
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.tenant_file_checks import MAX_FOLDER_ENTRIES
from bough.engine.local.tenant_files import (
    descriptor_path,
    open_regular_file,
    open_tenant_folder,
    rename,
    scan_entries,
    unlink,
)
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import ProjectId, VolumeId
from bough.postgres import archiver, wal


async def retire_volume(volumes: Volumes, archives: WalArchives, volume: VolumeId, project: ProjectId) -> None:
    """No compute runs on the volume, and the caller holds its lock. May be repeated after any crash."""
    await volumes.run_blocking(lambda: _complete_archive(volumes, archives, volume), project)
    await volumes.ensure_data_absent(volume, project)


def _complete_archive(volumes: Volumes, archives: WalArchives, volume: VolumeId) -> None:
    folder = volumes.folder(volume)
    record = folder.read_record()
    if record is None:
        if archives.read_record(volume) is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        return
    folder.check_not_archived()
    volumes.ensure_wal_archive(volume, folder.owner)
    archive_remaining_wal(volumes, archives, volume)
    archives.write_retired_record(volume, record)


def archive_remaining_wal(volumes: Volumes, archives: WalArchives, volume: VolumeId) -> None:
    """Copy every file that `pg_wal` has and the archive lacks, the unfinished last segment included."""
    folder = volumes.folder(volume)
    owner, archived, source = folder.owner, archives.list_wal_files(volume), folder.pg_wal
    with open_tenant_folder(source) as pg_wal, archives.open_folder(volume) as archive:
        for name in sorted(_files(pg_wal) - archived):
            if wal.is_history_file(name) or (wal.is_segment(name) and wal_segments.has_segment(source, name)):
                _copy(pg_wal, archive, name, lambda old, new: volumes.driver.clone_file(old, new, owner))
        sync_folder_fd(archive)


def _files(folder: int) -> set[str]:
    return {entry.name for entry in scan_entries(folder, MAX_FOLDER_ENTRIES) if entry.is_file(follow_symlinks=False)}


def _copy(source: int, target: int, name: str, clone: Callable[[Path, Path], None]) -> None:
    temporary = archiver.temporary_name(name)
    unlink(temporary, target)
    clone(descriptor_path(source, name), descriptor_path(target, temporary))
    with open_regular_file(temporary, target) as file:
        os.fsync(file)
    rename(temporary, name, target)
