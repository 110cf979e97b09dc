"""Putting a volume away, and bringing it back: an archived branch gives its disk back as far as that goes.

What a volume shares with others costs nothing more by lying there, and a pack shares nothing. So it is packed only
when the pack is smaller than what the volume alone holds; else it only gives back the WAL files that a server keeps
for later use. One small file is what counts: as long as it does not say that the volume is packed, the data is the
truth and whatever there is of a pack is dropped; as soon as it does, it is the other way round.
"""

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

from bough.engine.local import space
from bough.engine.local.computes import process, segments
from bough.engine.local.computes.living import Living
from bough.engine.local.durable import sync_files, sync_filesystem, sync_folder
from bough.engine.local.folders import Folders
from bough.engine.local.tenant_files import LARGEST_FILE, names, opened_tenant_folder, read_beginning, unlink
from bough.engine.local.threads import SharedThreads, unbroken
from bough.engine.local.volumes.folder import PutAway, VolumeFolder, VolumeRecord
from bough.engine.local.volumes.making import DROPPING, MAKING
from bough.engine.local.volumes.packs import Broken, TooLarge, pack, unpack
from bough.engine.local.volumes.sizes import Weight, sizes, weight
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import wal

_MB = 1024**2
_MOST_SHRUNK = 20  # times, and no more, is a pack smaller than what is in it
_HOLES = 64 * _MB  # that files may have; unpacked they would be holes no longer


class Packing:
    def __init__(self, volumes: Volumes, living: Living, folders: Folders, *, floor: int) -> None:
        self._volumes = volumes
        self._living = living
        self._folders = folders
        self._floor = floor
        # Few, because nobody waits for it; and nobody who does waits behind it.
        self._packers = SharedThreads(2, "packers", each=1)
        self._unpackers = SharedThreads(4, "unpackers", each=1)

    async def pack(self, volume: VolumeId) -> None:
        """Whoever asks holds the volume's lock."""
        if await self._living.settled(volume) is not None:
            raise EngineError("A compute still runs on the branch; suspend it first.")
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(self._known, folder)
        # What a killed one left could still write.
        await unbroken(lambda: process.clear_away(folder.data, folder.wal_of(record)))
        await self._packers.run(lambda: self._put_away(folder, self._known(folder)), record.project_id)

    async def unpack(self, volume: VolumeId) -> None:
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(self._known, folder)
        await self._unpackers.run(lambda: self._bring_back(folder, self._known(folder)), record.project_id)

    def close(self) -> None:
        self._packers.close()
        self._unpackers.close()

    def _known(self, folder: VolumeFolder) -> VolumeRecord:
        record = folder.read()
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.pending:
            raise EngineError("The branch's volume is still being recovered to its point.")
        return record

    def _put_away(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        state = folder.put_away()
        if state is None or not state.is_packed:
            _drop_pack(folder)
            owner = folder.owner
            state = PutAway(uid=owner.uid, gid=owner.gid, is_packed=self._packed(folder, record))
            folder.write_put_away(state)
        if state.is_packed:
            self._drop_data(folder, record)
        else:
            _drop_kept_segments(folder)

    def _packed(self, folder: VolumeFolder, record: VolumeRecord) -> bool:
        """Whether there is a pack now; there is none when it would be no gain."""
        trees = _trees(folder, record, folder.data)
        held = [sizes(tree) for tree in trees.values()]
        own = sum(each.own for each in held)
        whole = own + sum(each.shared for each in held)
        said = sum(map(weight, trees.values()), Weight())
        if own * _MOST_SHRUNK < whole or said.largest > LARGEST_FILE or said.total > 2 * whole + _HOLES:
            return False
        making = _beside(_pack(folder), MAKING)
        try:
            pack(trees, making, limit=own, check=self._check_room)
        except TooLarge:
            making.unlink()
            return False
        except BaseException:
            making.unlink(missing_ok=True)
            raise
        making.rename(_pack(folder))
        sync_folder(folder.path)
        return True

    def _drop_data(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        dropping = _beside(folder.data, DROPPING)
        self._volumes.driver.remove(dropping)
        if folder.data.exists():
            folder.data.rename(dropping)
            sync_folder(folder.path)
            self._volumes.driver.remove(dropping)
        self._volumes.driver.remove(_beside(folder.data, MAKING))
        if record.wal_apart:
            self._volumes.driver.remove(folder.wal_apart)

    def _bring_back(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        state = folder.put_away()
        if state is not None and state.is_packed:
            self._drop_data(folder, record)
            self._check_room()
            self._unpack(folder, record)
        if state is not None:
            folder.write_put_away(None)
        _drop_pack(folder)

    def _unpack(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        making = _beside(folder.data, MAKING)
        try:
            self._volumes.driver.make_folder(making)
            if record.wal_apart:
                folder.wal_apart.mkdir(mode=0o700)
            unpack(_pack(folder), _trees(folder, record, making), self._check_room)
        except Broken as error:
            self._drop_data(folder, record)
            raise EngineError(
                f"The pack {_pack(folder)} of an archived branch is broken: put it back from a backup.", transient=False
            ) from error
        except BaseException:
            self._drop_data(folder, record)
            raise
        if record.wal_apart:
            sync_files(folder.wal_apart)
            sync_folder(folder.wal_apart.parent)
        sync_filesystem(folder.path)
        making.rename(folder.data)
        sync_folder(folder.path)

    def _check_room(self) -> None:
        space.check(self._folders, self._floor)


def _pack(folder: VolumeFolder) -> Path:
    return folder.path / "data.pack"


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _drop_pack(folder: VolumeFolder) -> None:
    """What is left of one that does not count."""
    for path in (_pack(folder), _beside(_pack(folder), MAKING)):
        path.unlink(missing_ok=True)


def _trees(folder: VolumeFolder, record: VolumeRecord, data: Path) -> dict[str, Path]:
    """By the names that they have in the pack."""
    return {"data": data} | ({"wal": folder.wal_apart} if record.wal_apart else {})


def _drop_kept_segments(folder: VolumeFolder) -> None:
    """WAL files that a server which ended well keeps for later use: it makes others. Nobody else has use for them."""
    try:
        control = segments.control(folder.data)
    except (OSError, struct.error):
        return
    if not control.shut_down:
        return
    with opened_tenant_folder(folder.wal) as held:
        for name in list(_kept(held, control.first_segment)):
            unlink(name, held)


def _kept(held: int, current: str) -> Iterator[str]:
    for name in wal.needed_from(current, names(held)):
        if name.endswith(".history") or name[8:] <= current[8:]:
            continue
        if not wal.is_begun(name, read_beginning(name, held, wal.HEAD_BYTES)):
            yield name
