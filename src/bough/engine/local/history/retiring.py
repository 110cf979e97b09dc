"""A volume that no branch has any more goes, and what can be gone back to of it stays: its WAL to the last commit.

What its server has not archived is archived here. The folders are a tenant's: they are held open, and no link in them
is followed.
"""

import os
from collections.abc import Callable
from pathlib import Path

from bough.engine.local.computes import segments
from bough.engine.local.durable import sync_folder_of
from bough.engine.local.history.archives import Archives
from bough.engine.local.tenant_files import MOST_LISTED, entries, opened_file, opened_tenant_folder, rename, unlink
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import ProjectId, VolumeId
from bough.postgres import archiving, wal


class Retiring:
    def __init__(self, volumes: Volumes, archives: Archives) -> None:
        self._volumes = volumes
        self._archives = archives

    async def retire(self, volume: VolumeId, project: ProjectId) -> None:
        """Nobody serves it, and whoever asks holds its lock. May be repeated, after any crash."""
        await self._volumes.work(lambda: self._file(volume), project)
        await self._volumes.ensure_closed(volume, project)

    def _file(self, volume: VolumeId) -> None:
        folder = self._volumes.folder(volume)
        record = folder.read()
        if record is None:
            if self._archives.record(volume) is None:
                raise EngineError("The branch's volume does not exist.", transient=False)
            return
        folder.check_not_put_away()
        self._archives.ensure(volume, folder.owner)
        self._add_tail(volume, folder)
        self._archives.keep_record(volume, record)

    def _add_tail(self, volume: VolumeId, folder: VolumeFolder) -> None:
        """All that its `pg_wal` has and its archive has not; the last segment as far as it was written."""
        owner, archived, source = folder.owner, self._archives.segments(volume), folder.wal
        with opened_tenant_folder(source) as here, self._archives.opened(volume) as there:
            for name in sorted(_files(here) - archived):
                if wal.is_history(name) or (wal.is_segment(name) and segments.has(source, name)):
                    _copy(here, there, name, lambda old, new: self._volumes.driver.clone_file(old, new, owner))
            sync_folder_of(there)


def _files(folder: int) -> set[str]:
    return {entry.name for entry in entries(folder, MOST_LISTED) if entry.is_file(follow_symlinks=False)}


def _copy(here: int, there: int, name: str, clone: Callable[[Path, Path], None]) -> None:
    fresh = archiving.unfinished(name)
    unlink(fresh, there)
    clone(_path(here, name), _path(there, fresh))
    with opened_file(fresh, there) as copied:
        os.fsync(copied)
    rename(fresh, name, there)


def _path(folder: int, name: str) -> Path:
    return Path(f"/proc/self/fd/{folder}/{name}")
