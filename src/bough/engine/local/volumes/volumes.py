"""The volumes of a home: one folder each, made whole or not at all, by any driver.

A volume is its data and its WAL. The WAL is in the data folder, or apart on another file system when
that is faster; then `pg_wal` is a link to it.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TypeVar

from bough.engine.local.durable import publish, sync_files, sync_filesystem, sync_folder, write_atomically
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.making import begun, drop, leftovers
from bough.engine.local.volumes.plain import PlainDriver
from bough.engine.local.volumes.port import Driver
from bough.engine.port import EngineError, Origin
from bough.ids import VolumeId
from bough.postgres import wal
from bough.postgres.control_file import PATH as CONTROL_FILE
from bough.postgres.control_file import ControlFile

T = TypeVar("T")


class Volumes:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._wal_root: Path | None = None
        self.driver: Driver = PlainDriver()
        # Threads of their own: a large copy must not hold up a wake that needs one for a moment.
        self._threads = ThreadPoolExecutor(4, "volumes")
        self._removers = ThreadPoolExecutor(2, "removers")  # and who takes his time must not hold up a clone

    def use(self, driver: Driver, wal_root: Path | None) -> None:
        """How volumes are made from now on, known when the file system is there to be asked.

        With `wal_root` the WAL of new volumes is apart, in there.
        """
        self.driver = driver
        self._wal_root = wal_root

    def folder(self, volume: VolumeId) -> VolumeFolder:
        """Where the volume is, or would be."""
        return VolumeFolder(self._root / volume, (self._wal_root or self._root / "wal") / volume)

    def wal(self, volume: VolumeId) -> Path:
        """Where a volume that exists keeps its WAL."""
        folder = self.folder(volume)
        record = folder.read()
        return folder.wal_apart if record is not None and record.wal_apart else folder.data / "pg_wal"

    @asynccontextmanager
    async def new(self, volume: VolumeId, record: VolumeRecord, owner: Identity) -> AsyncIterator["NewVolume"]:
        """A volume to fill: at the end of the block it exists, whole and synced; after a failure nothing does."""
        made = NewVolume(self.folder(volume), self.driver, owner, apart=self._wal_root is not None)
        try:
            await self.work(lambda: made.begin(record))
            yield made
            await self.work(made.publish)
        except BaseException:
            await self.work(made.discard)
            raise

    def move_wal(self, old: VolumeId, new: VolumeId) -> None:
        """WAL that is apart follows its volume to another name, under a server that runs."""
        folder = self.folder(old)
        apart = self.folder(new).wal_apart
        folder.wal_apart.rename(apart)
        sync_folder(apart.parent)
        fresh = folder.data / "pg_wal.new"
        _link_wal(fresh, apart, folder.owner)
        fresh.rename(folder.data / "pg_wal")
        sync_folder(folder.data)  # a subvolume is not synced with the folder it is in

    async def ensure_absent(self, volume: VolumeId) -> None:
        """The volume and all that was begun of it are gone. There is time, as long as somebody waits."""
        hurry = Event()
        await unbroken(lambda: self._drop(self.folder(volume), hurry), self._removers, hurry=hurry.set)

    async def ensure_tidy(self) -> None:
        """Nothing half made or half removed is left. Only for a start: nothing may be in the making."""
        await self.work(self._tidy)

    async def present(self) -> frozenset[VolumeId]:
        """The volumes that exist whole."""
        return await unbroken(self._list)

    async def work(self, blocking: Callable[[], T]) -> T:
        """Run something long where it holds up nobody."""
        return await unbroken(blocking, self._threads)

    def close(self) -> None:
        self._threads.shutdown()
        self._removers.shutdown()

    def _drop(self, folder: VolumeFolder, hurry: Event) -> None:
        self.driver.remove(begun(folder.path))
        drop(folder.path, self.driver, hurry)
        self.driver.remove(folder.wal_apart)

    def _tidy(self) -> None:
        for path in leftovers(self._root):
            self.driver.remove(path)
        if self._wal_root is not None:
            present = self._list()
            for path in self._wal_root.iterdir():
                if VolumeId(path.name) not in present:
                    self.driver.remove(path)

    def _list(self) -> frozenset[VolumeId]:
        with os.scandir(self._root) as entries:
            whole = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            return frozenset(VolumeId(name) for name in whole if "." not in name)


class NewVolume:
    """A volume in the making, under another name and closed to its owner."""

    def __init__(self, place: VolumeFolder, driver: Driver, owner: Identity, *, apart: bool) -> None:
        self._place = place
        self._driver = driver
        self._owner = owner
        self._apart = apart
        self._making = VolumeFolder(begun(place.path), place.wal_apart)

    @property
    def data(self) -> Path:
        return self._making.data

    def note(self, origin: Origin) -> None:
        """How it begins, into its record; synced with all the rest."""
        record = self._making.read()
        if record is not None:
            self._making.write(record.begun(origin), durable=False)

    def begin(self, record: VolumeRecord) -> None:
        self.discard()
        if self._place.path.exists():
            raise EngineError("The branch's volume exists already.", transient=False)
        self._making.begin(replace(record, wal_apart=self._apart))

    def clone(self, source: Path) -> None:
        """The data of a data folder that may be in use, without its WAL."""
        self._driver.clone(source, self._making.data, self._owner)

    def clone_wal(self, source: Path, names: Iterable[str]) -> None:
        """These files of a `pg_wal`."""
        target = self._wal_folder()
        # By a descriptor: a tenant's code could put a link to a neighbour's folder in its place.
        descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            held = Path(f"/proc/self/fd/{descriptor}")
            for name in names:
                self._driver.clone_file(held / name, target / name, self._owner)
        finally:
            os.close(descriptor)

    def clone_needed_wal(self, source: Path) -> ControlFile:
        """What the clone of a stopped server's data needs, found out from the clone itself."""
        control = ControlFile.parse((self._making.data / CONTROL_FILE).read_bytes())
        if control.shut_down:
            self.clone_wal(source, [control.first_segment])
        else:
            self.clone_wal(source, wal.needed_from(control.first_segment, (path.name for path in source.iterdir())))
        return control

    def write(self, name: str, text: str) -> None:
        """A small file of the data folder."""
        path = self._making.data / name
        write_atomically(path, text)
        os.chown(path, self._owner.uid, self._owner.gid)

    def publish(self) -> None:
        self._making.open_to(self._owner)
        if self._apart:  # file by file: whatever else is written to that disk is not ours to wait for
            sync_files(self._making.wal_apart)
            sync_folder(self._making.wal_apart.parent)
        sync_filesystem(self._making.path)
        publish(self._making.path, self._place.path)

    def discard(self) -> None:
        self._driver.remove(self._making.path)
        if self._apart and not self._place.path.exists():
            self._driver.remove(self._making.wal_apart)

    def _wal_folder(self) -> Path:
        inside = self._making.data / "pg_wal"
        folder = self._making.wal_apart if self._apart else inside
        if self._apart and inside.is_dir() and not inside.is_symlink():
            inside.rmdir()
        if not folder.exists():
            folder.mkdir(mode=0o700)
            os.chown(folder, self._owner.uid, self._owner.gid)
        if self._apart and not inside.is_symlink():
            _link_wal(inside, folder, self._owner)
        return folder


def _link_wal(link: Path, apart: Path, owner: Identity) -> None:
    link.symlink_to(os.path.relpath(apart, link.parent))  # relative: a home may be moved
    os.chown(link, owner.uid, owner.gid, follow_symlinks=False)
