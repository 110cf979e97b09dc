"""The volumes of a home: one folder each, made whole or not at all, by any driver.

A volume is its data and its WAL. The WAL is in the data folder, or apart on another file system when
that is faster; then `pg_wal` is a link to it.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TypeVar

from bough import clock
from bough.engine.local.durable_files import publish_folder, sync_files, sync_filesystem, sync_folder
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import TenantFileError, list_names, open_tenant_folder, write_file
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.threads import FairThreadPool, run_shielded
from bough.engine.local.volumes import archive_link as archive
from bough.engine.local.volumes import control_files
from bough.engine.local.volumes.atomic_folders import hide_folder, list_leftovers, remove_atomically, staging_path
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.plain import PlainDriver
from bough.engine.local.volumes.port import Driver
from bough.engine.local.volumes.volume_names import VolumeNames, is_base
from bough.engine.port import EngineError, Origin
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal
from bough.postgres.control_file import PATH as CONTROL_FILE
from bough.postgres.control_file import ControlFile

T = TypeVar("T")


class Volumes:
    def __init__(self, root: Path, archive_root: Path | None = None) -> None:
        self._root = root
        self._names = VolumeNames(root)
        self.archive_root = archive_root or root.parent / "wal"
        self._wal_root: Path | None = None
        self.driver: Driver = PlainDriver()
        # Threads of their own: a large copy must not hold up a wake that needs one for a moment.
        self._threads = FairThreadPool(8, "volumes", per_project=2)
        self._removers = FairThreadPool(4, "removers", per_project=1)  # and who takes his time must not hold up a clone

    def configure(self, driver: Driver, wal_root: Path | None) -> None:
        """How volumes are made from now on, known when the file system is there to be asked.

        With `wal_root` the WAL of new volumes is apart, in there.
        """
        self.driver = driver
        self._wal_root = wal_root

    def folder(self, volume: VolumeId) -> VolumeFolder:
        """Where the volume is, or would be."""
        return VolumeFolder(self._root / volume, (self._wal_root or self._root / "wal") / volume)

    def pg_wal_path(self, volume: VolumeId) -> Path:
        """Where a volume that exists keeps its WAL."""
        return self.folder(volume).pg_wal

    def archive_path(self, volume: VolumeId) -> Path:
        """Where the volume's WAL is archived. It outlives the volume."""
        return self.archive_root / volume

    def ensure_archive(self, volume: VolumeId, owner: Identity) -> None:
        archive.ensure_archive(self.folder(volume), self.archive_path(volume), owner)

    @asynccontextmanager
    async def create(self, volume: VolumeId, record: VolumeRecord, owner: Identity) -> AsyncIterator["NewVolume"]:
        """A volume to fill: at the end of the block it exists, whole and synced; after a failure nothing does."""
        project = record.project_id
        made = NewVolume(
            self.folder(volume), self.driver, owner, has_external_wal=self._wal_root is not None, project=project
        )
        try:
            await self.run_blocking(lambda: made.create(record), project)
            yield made
            await self.run_blocking(made.publish, project)
        except BaseException:
            await self.run_blocking(made.discard, project)
            raise

    def move_wal(self, old: VolumeId, new: VolumeId) -> None:
        """WAL that is apart follows its volume to another name, under a server that runs."""
        folder = self.folder(old)
        apart = self.folder(new).external_wal
        folder.external_wal.rename(apart)
        sync_folder(apart.parent)
        fresh = folder.data / "pg_wal.new"
        _link_wal(fresh, apart, folder.owner)
        fresh.rename(folder.data / "pg_wal")
        sync_folder(folder.data)  # a subvolume is not synced with the folder it is in

    async def ensure_absent(self, volume: VolumeId, project: ProjectId) -> None:
        """The volume, all that was begun of it and its archive are gone."""
        await self.ensure_data_absent(volume, project)
        await self.run_removal(lambda: remove_tree(self.archive_path(volume)), project)

    async def ensure_data_absent(self, volume: VolumeId, project: ProjectId) -> None:
        """The volume is gone, and not its archive. There is time, as long as somebody waits."""
        hurry = Event()
        await self._removers.run(lambda: self._drop(self.folder(volume), hurry), project, on_cancel=hurry.set)

    async def remove_leftovers(self) -> None:
        """Nothing half made or half removed is left. Only for a start: nothing may be in the making."""
        await run_shielded(self._remove_leftovers)

    async def list_volumes(self) -> frozenset[VolumeId]:
        """The volumes that exist whole. Bases are none of them."""
        return await run_shielded(lambda: frozenset(each for each in self._list() if not is_base(each)))

    def list_bases(self, volume: VolumeId) -> list[VolumeId]:
        """The volume's bases, in no order."""
        return self._names.list_bases(volume)

    def list_volumes_and_bases(self) -> frozenset[VolumeId]:
        """The volumes that exist whole, and the bases."""
        return self._list()

    def list_archives(self) -> list[VolumeId]:
        """The volumes that have an archive; they may be gone themselves."""
        try:
            with os.scandir(self.archive_root) as entries:
                return [VolumeId(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def hide(self, volume: VolumeId) -> None:
        """Nobody finds the volume any more; `ensure_closed` removes it."""
        hide_folder(self.folder(volume).path)

    async def run_blocking(self, blocking: Callable[[], T], project: str) -> T:
        """Run something long where it holds up nobody but the project."""
        return await self._threads.run(blocking, project)

    async def run_removal(self, blocking: Callable[[], T], project: str) -> T:
        """The same for what removes something."""
        return await self._removers.run(blocking, project)

    def close(self) -> None:
        self._threads.close()
        self._removers.close()

    def _drop(self, folder: VolumeFolder, hurry: Event) -> None:
        self.driver.remove(staging_path(folder.path))
        remove_atomically(folder.path, self.driver, hurry)
        self.driver.remove(folder.external_wal)

    def _remove_leftovers(self) -> None:
        for path in list_leftovers(self._root):
            self.driver.remove(path)
        present = self._list()
        if self._wal_root is not None:
            for path in self._wal_root.iterdir():
                if VolumeId(path.name) not in present:
                    self.driver.remove(path)
        for volume in self.list_archives():
            if volume not in present and not retired_record_path(self.archive_path(volume)).exists():
                remove_tree(self.archive_path(volume))

    def _list(self) -> frozenset[VolumeId]:
        return self._names.list_all()


class NewVolume:
    """A volume in the making, under another name and closed to its owner."""

    def __init__(
        self, target: VolumeFolder, driver: Driver, owner: Identity, *, has_external_wal: bool, project: ProjectId
    ) -> None:
        self._target = target
        self._driver = driver
        self._owner = owner
        self._has_external_wal = has_external_wal
        self._grants_access = True
        self.project_id = project
        self._staging = VolumeFolder(staging_path(target.path), target.external_wal)

    @property
    def data(self) -> Path:
        return self._staging.data

    def write_origin(self, origin: Origin, first_segment: str | None) -> None:
        """How it begins, into its record; synced with all the rest."""
        record = self._staging.read_record()
        if record is not None:
            self._staging.write_record(replace(record.with_origin(origin), first_segment=first_segment), durable=False)

    def create(self, record: VolumeRecord) -> None:
        self.discard()
        if self._target.path.exists():
            raise EngineError("The branch's volume exists already.", transient=False)
        self._grants_access = record.base_of is None  # a tenant's code must not change what is gone back to
        self._staging.create(replace(record, wal_apart=self._has_external_wal, made_at=clock.now().isoformat()))

    def clone(self, source: Path) -> None:
        """The data of a data folder that may be in use, without its WAL."""
        self._driver.clone(source, self._staging.data, self._owner)

    def clone_wal(self, source: Path, wanted: Iterable[str]) -> None:
        """These files of a `pg_wal`."""
        target = self._wal_folder()
        # By a descriptor: a tenant's code could put a link to a neighbour's folder in its place.
        with open_tenant_folder(source) as descriptor:
            held = Path(f"/proc/self/fd/{descriptor}")
            for name in wanted:
                self._driver.clone_file(held / name, target / name, self._owner)

    def clone_needed_wal(self, source: Path) -> ControlFile:
        """What the clone of a stopped server's data needs, found out from the clone itself."""
        control = self._control()
        if control.is_shut_down:
            self.clone_wal(source, [control.first_segment])
        else:
            self.clone_wal_from(source, control.first_segment)
        return control

    def _control(self) -> ControlFile:
        try:
            return control_files.read(self._staging.data)
        except FileNotFoundError as error:  # it is no file in the source, or the source has none
            raise TenantFileError(f"The branch's files cannot be used: {CONTROL_FILE} is not there.") from error

    def clone_wal_from(self, source: Path, first: str) -> None:
        """The files of a `pg_wal` that a server reads which begins with this one."""
        with open_tenant_folder(source) as here:
            present = list_names(here)
        self.clone_wal(source, wal.select_needed_from(first, present))

    def write_file(self, name: str, text: str) -> None:
        """A small file of the data folder."""
        write_file(name, self._staging.data, text.encode(), (self._owner.uid, self._owner.gid))

    def publish(self) -> None:
        if self._grants_access:
            self._staging.grant_access(self._owner)
        if self._has_external_wal:  # file by file: whatever else is written to that disk is not ours to wait for
            sync_files(self._staging.external_wal)
            sync_folder(self._staging.external_wal.parent)
        sync_filesystem(self._staging.path)
        publish_folder(self._staging.path, self._target.path)

    def discard(self) -> None:
        self._driver.remove(self._staging.path)
        if self._has_external_wal and not self._target.path.exists():
            self._driver.remove(self._staging.external_wal)

    def _wal_folder(self) -> Path:
        inside = self._staging.data / "pg_wal"
        folder = self._staging.external_wal if self._has_external_wal else inside
        if self._has_external_wal and inside.is_dir() and not inside.is_symlink():
            inside.rmdir()
        if not folder.exists():
            folder.mkdir(mode=0o700)
            os.chown(folder, self._owner.uid, self._owner.gid)
        if self._has_external_wal and not inside.is_symlink():
            _link_wal(inside, folder, self._owner)
        return folder


def _link_wal(link: Path, apart: Path, owner: Identity) -> None:
    link.symlink_to(os.path.relpath(apart, link.parent))  # relative: a home may be moved
    os.chown(link, owner.uid, owner.gid, follow_symlinks=False)


def retired_record_path(archive: Path) -> Path:
    """What is known of a volume whose archive outlived it, beside the archive."""
    return archive.with_name(f"{archive.name}.json")
