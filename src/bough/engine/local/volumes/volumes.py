"""The volumes of a home: one folder each, created completely or not at all, by any driver.

A volume is its data and its WAL. The WAL is in the data directory, or on another file system when that is faster; then
`pg_wal` is a link to it.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import TypeVar

from bough.engine.local.durable_files import sync_folder
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.threads import FairThreadPool, run_shielded
from bough.engine.local.volumes import wal_archive_link
from bough.engine.local.volumes.atomic_folders import hide_folder, list_leftovers, remove_atomically, staging_path
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.new_volume import NewVolume, link_wal
from bough.engine.local.volumes.plain import PlainDriver
from bough.engine.local.volumes.port import Driver
from bough.engine.local.volumes.volume_names import VolumeNames, is_base
from bough.ids import ProjectId, VolumeId

T = TypeVar("T")


class Volumes:
    def __init__(self, root: Path, wal_archive_root: Path | None = None, wal_root: Path | None = None) -> None:
        self._root = root
        self._names = VolumeNames(root)
        self.wal_archive_root = wal_archive_root or root.parent / "wal"
        self._wal_root = wal_root
        self.driver: Driver = PlainDriver()
        # Separate threads: a large copy must not delay a wake, nor a slow removal a clone.
        self._threads = FairThreadPool(8, "volumes", per_project=2)
        self._removers = FairThreadPool(4, "removers", per_project=1)

    def configure(self, driver: Driver, wal_root: Path | None) -> None:
        """Set how volumes are created, once the file system can be examined.

        With `wal_root`, new volumes keep their WAL there.
        """
        self.driver = driver
        self._wal_root = wal_root

    def folder(self, volume: VolumeId) -> VolumeFolder:
        """Return the folder of the volume, which need not exist."""
        return VolumeFolder(self._root / volume, (self._wal_root or self._root / "wal") / volume)

    def has_record(self, volume: VolumeId) -> bool:
        """Return whether the volume exists; of a retired one only the history is left."""
        return self.folder(volume).read_record() is not None

    def pg_wal_path(self, volume: VolumeId) -> Path:
        """Return the WAL folder of a volume that exists."""
        return self.folder(volume).pg_wal

    def wal_archive_path(self, volume: VolumeId) -> Path:
        """Return the WAL archive of the volume, which outlives it."""
        return self.wal_archive_root / volume

    def ensure_wal_archive(self, volume: VolumeId, owner: Identity) -> None:
        """Ensure that the archive exists, and the link through which the volume's server finds it."""
        wal_archive_link.ensure_wal_archive(self.folder(volume), self.wal_archive_path(volume), owner)

    @asynccontextmanager
    async def create(self, volume: VolumeId, record: VolumeRecord, owner: Identity) -> AsyncIterator[NewVolume]:
        """Yield a volume to fill. At the end of the block it exists, complete and synced; a failure removes it."""
        project = record.project_id
        new_volume = NewVolume(
            self.folder(volume), self.driver, owner, has_external_wal=self._wal_root is not None, project=project
        )
        try:
            await self.run_blocking(lambda: new_volume.create(record), project)
            yield new_volume
            await self.run_blocking(new_volume.publish, project)
        except BaseException:
            await self.run_blocking(new_volume.discard, project)
            raise

    def move_wal(self, old: VolumeId, new: VolumeId) -> None:
        """Move external WAL to another volume name, under a running server."""
        folder = self.folder(old)
        external_wal = self.folder(new).external_wal
        folder.external_wal.rename(external_wal)
        sync_folder(external_wal.parent)
        new_link = folder.data / "pg_wal.new"
        link_wal(new_link, external_wal, folder.owner)
        new_link.rename(folder.data / "pg_wal")
        sync_folder(folder.data)  # syncing a folder does not sync the subvolumes in it

    async def ensure_absent(self, volume: VolumeId, project: ProjectId) -> None:
        """Remove the volume, its staging folder and its archive."""
        await self.ensure_data_absent(volume, project)
        await self.run_removal(lambda: remove_tree(self.wal_archive_path(volume)), project)

    async def ensure_data_absent(self, volume: VolumeId, project: ProjectId) -> None:
        """Remove the volume but not its archive. Cancelling the caller speeds up a slow removal."""
        stop_pacing = Event()
        folder = self.folder(volume)
        await self._removers.run(lambda: self._drop(folder, stop_pacing), project, on_cancel=stop_pacing.set)

    async def remove_leftovers(self) -> None:
        """Remove unfinished volumes and removals. Call it only at startup, before any volume is created."""
        await run_shielded(self._remove_leftovers)

    async def list_volumes(self) -> frozenset[VolumeId]:
        """Return the complete volumes without bases."""
        return await run_shielded(lambda: frozenset(each for each in self._list() if not is_base(each)))

    def list_files(self, name: str) -> list[Path]:
        """Return the files of this name, which the platform has written, in the folders of all volumes."""
        return sorted(self._root.glob(f"*/{name}"))

    def list_bases(self, volume: VolumeId) -> list[VolumeId]:
        """Return the volume's bases, in no particular order."""
        return self._names.list_bases(volume)

    def list_volumes_and_bases(self) -> frozenset[VolumeId]:
        """Return the complete volumes and the bases."""
        return self._list()

    def list_wal_archives(self) -> list[VolumeId]:
        """Return the volumes that have an archive, retired ones included."""
        try:
            with os.scandir(self.wal_archive_root) as entries:
                return [VolumeId(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def hide(self, volume: VolumeId) -> None:
        """Keep callers from finding the volume until `ensure_data_absent` removes it."""
        hide_folder(self.folder(volume).path)

    async def run_blocking(self, blocking: Callable[[], T], project: str) -> T:
        """Run slow work in threads of which each project gets a fair share."""
        return await self._threads.run(blocking, project)

    async def run_removal(self, blocking: Callable[[], T], project: str) -> T:
        """Run slow removals in separate threads, with the same share per project."""
        return await self._removers.run(blocking, project)

    def close(self) -> None:
        self._threads.close()
        self._removers.close()

    def _drop(self, folder: VolumeFolder, stop_pacing: Event) -> None:
        self.driver.remove(staging_path(folder.path))
        remove_atomically(folder.path, self.driver, stop_pacing)
        self.driver.remove(folder.external_wal)

    def _remove_leftovers(self) -> None:
        for path in list_leftovers(self._root):
            self.driver.remove(path)
        present = self._list()
        if self._wal_root is not None:
            for path in self._wal_root.iterdir():
                if VolumeId(path.name) not in present:
                    self.driver.remove(path)
        for volume in self.list_wal_archives():
            if volume not in present and not retired_record_path(self.wal_archive_path(volume)).exists():
                remove_tree(self.wal_archive_path(volume))

    def _list(self) -> frozenset[VolumeId]:
        return self._names.list_all()


def retired_record_path(archive: Path) -> Path:
    """Return the path of the record of a retired volume, next to its archive."""
    return archive.with_name(f"{archive.name}.json")
