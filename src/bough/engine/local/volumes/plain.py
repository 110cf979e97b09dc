"""Volumes that are plain copies: for any file system, at the price of time and space."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bough.engine.local.sandbox import Identity
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.copying import copy_tree
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.making import MAKING, being_made, drop, leftovers, remove
from bough.ids import VolumeId


class PlainVolumes:
    driver = "plain"

    def __init__(self, root: Path) -> None:
        self._root = root
        # Threads of their own: a large copy must not hold up a wake that needs one for a moment.
        self._threads = ThreadPoolExecutor(4, "volumes")

    def folder(self, volume: VolumeId) -> VolumeFolder:
        return VolumeFolder(self._root / volume)

    async def ensure_volume(self, volume: VolumeId, source: Path, record: VolumeRecord, owner: Identity) -> None:
        await unbroken(lambda: self._make(self.folder(volume).path, source, record, owner), self._threads)

    async def ensure_absent(self, volume: VolumeId) -> None:
        await unbroken(lambda: self._drop(self.folder(volume).path), self._threads)

    async def ensure_tidy(self) -> None:
        await unbroken(self._tidy, self._threads)

    async def present(self) -> frozenset[VolumeId]:
        return await unbroken(self._list)

    def close(self) -> None:
        self._threads.shutdown()

    def _make(self, place: Path, source: Path, record: VolumeRecord, owner: Identity) -> None:
        if place.exists():
            return
        with being_made(place) as making:
            folder = VolumeFolder(making)
            folder.begin(record, owner)
            copy_tree(source, folder.data, owner)

    def _drop(self, place: Path) -> None:
        remove(place.with_name(place.name + MAKING))
        drop(place)

    def _tidy(self) -> None:
        for path in leftovers(self._root):
            remove(path)

    def _list(self) -> frozenset[VolumeId]:
        return frozenset(VolumeId(path.name) for path in self._root.glob("*") if path.suffix == "")
