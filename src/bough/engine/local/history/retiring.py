"""A volume that no branch has any more goes, and what can be gone back to of it stays: its WAL to the last commit.

What its server has not archived is archived here. The folders are a tenant's: they are held open, and no link in them
is followed.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bough.engine.local.computes import segments
from bough.engine.local.durable import sync_folder
from bough.engine.local.history.archives import Archives
from bough.engine.local.volumes.copying import opened_file, opened_folder
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import archiving, wal


class Retiring:
    def __init__(self, volumes: Volumes, archives: Archives) -> None:
        self._volumes = volumes
        self._archives = archives

    async def retire(self, volume: VolumeId) -> None:
        """Nobody serves it, and whoever asks holds its lock. May be repeated, after any crash."""
        await self._volumes.work(lambda: self._file(volume))
        await self._volumes.ensure_closed(volume)

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
        with (
            opened_folder(source.parent) as above,
            opened_folder(source.name, above) as here,
            self._archives.opened(volume) as there,
        ):
            for name in sorted(_files(here) - archived):
                if wal.is_history(name) or (wal.is_segment(name) and segments.has(source, name)):
                    _copy(here, there, name, lambda old, new: self._volumes.driver.clone_file(old, new, owner))
        sync_folder(self._archives.folder(volume))


def _files(folder: int) -> set[str]:
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}


def _copy(here: int, there: int, name: str, clone: Callable[[Path, Path], None]) -> None:
    fresh = archiving.unfinished(name)
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=there)
    clone(_path(here, name), _path(there, fresh))
    with opened_file(fresh, there) as copied:
        os.fsync(copied)
    os.rename(fresh, name, src_dir_fd=there, dst_dir_fd=there)


def _path(folder: int, name: str) -> Path:
    return Path(f"/proc/self/fd/{folder}/{name}")
