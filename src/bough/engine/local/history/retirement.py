"""A volume that no branch has any more goes, and what can be gone back to of it stays: its WAL to the last commit.

What its server has not archived is archived here. The folders are a tenant's: they are held open, and no link in them
is followed.
"""

import os
from collections.abc import Callable
from pathlib import Path

from bough.engine.local.computes import wal_segments
from bough.engine.local.durable_files import sync_folder_fd
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.tenant_files import (
    MAX_FOLDER_ENTRIES,
    open_regular_file,
    open_tenant_folder,
    rename,
    scan_entries,
    unlink,
)
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import ProjectId, VolumeId
from bough.postgres import archiver, wal


class VolumeRetirement:
    def __init__(self, volumes: Volumes, archives: WalArchives) -> None:
        self._volumes = volumes
        self._archives = archives

    async def retire(self, volume: VolumeId, project: ProjectId) -> None:
        """Nobody serves it, and whoever asks holds its lock. May be repeated, after any crash."""
        await self._volumes.run_blocking(lambda: self._archive_rest(volume), project)
        await self._volumes.ensure_data_absent(volume, project)

    def _archive_rest(self, volume: VolumeId) -> None:
        folder = self._volumes.folder(volume)
        record = folder.read_record()
        if record is None:
            if self._archives.read_record(volume) is None:
                raise EngineError("The branch's volume does not exist.", transient=False)
            return
        folder.check_not_archived()
        self._archives.ensure(volume, folder.owner)
        self._add_tail(volume, folder)
        self._archives.write_retired_record(volume, record)

    def _add_tail(self, volume: VolumeId, folder: VolumeFolder) -> None:
        """All that its `pg_wal` has and its archive has not; the last segment as far as it was written."""
        owner, archived, source = folder.owner, self._archives.list_wal_files(volume), folder.pg_wal
        with open_tenant_folder(source) as here, self._archives.open_folder(volume) as there:
            for name in sorted(_files(here) - archived):
                if wal.is_history_file(name) or (wal.is_segment(name) and wal_segments.has_segment(source, name)):
                    _copy(here, there, name, lambda old, new: self._volumes.driver.clone_file(old, new, owner))
            sync_folder_fd(there)


def _files(folder: int) -> set[str]:
    return {entry.name for entry in scan_entries(folder, MAX_FOLDER_ENTRIES) if entry.is_file(follow_symlinks=False)}


def _copy(here: int, there: int, name: str, clone: Callable[[Path, Path], None]) -> None:
    fresh = archiver.temporary_name(name)
    unlink(fresh, there)
    clone(_path(here, name), _path(there, fresh))
    with open_regular_file(fresh, there) as copied:
        os.fsync(copied)
    rename(fresh, name, there)


def _path(folder: int, name: str) -> Path:
    return Path(f"/proc/self/fd/{folder}/{name}")
