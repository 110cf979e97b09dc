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

from bough.engine.local import free_space
from bough.engine.local.computes import process, wal_segments
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.durable_files import sync_files, sync_filesystem, sync_folder
from bough.engine.local.folders import Folders
from bough.engine.local.tenant_files import MAX_FILE_BYTES, list_names, open_tenant_folder, read_head, unlink
from bough.engine.local.threads import FairThreadPool, run_shielded
from bough.engine.local.volumes.atomic_folders import REMOVAL_SUFFIX, STAGING_SUFFIX
from bough.engine.local.volumes.disk_usage import ApparentSize, measure_apparent_size, measure_disk_usage
from bough.engine.local.volumes.folder import ArchivedState, VolumeFolder, VolumeRecord
from bough.engine.local.volumes.pack_file import PackCorrupted, PackTooLarge, extract_pack, write_pack
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import wal

_MB = 1024**2
_MOST_SHRUNK = 20  # times, and no more, is a pack smaller than what is in it
_HOLES = 64 * _MB  # that files may have; unpacked they would be holes no longer


class VolumePacker:
    def __init__(self, volumes: Volumes, running: RunningComputes, folders: Folders, *, floor: int) -> None:
        self._volumes = volumes
        self._running = running
        self._folders = folders
        self._floor = floor
        # Few, because nobody waits for it; and nobody who does waits behind it.
        self._packers = FairThreadPool(2, "packers", per_project=1)
        self._unpackers = FairThreadPool(4, "unpackers", per_project=1)

    async def pack(self, volume: VolumeId) -> None:
        """Whoever asks holds the volume's lock."""
        if await self._running.await_volume_sockets(volume) is not None:
            raise EngineError("A compute still runs on the branch; suspend it first.")
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(self._read_record, folder)
        # What a killed one left could still write.
        await run_shielded(lambda: process.clean_up_after_crash(folder.data, folder.pg_wal_of(record)))
        await self._packers.run(lambda: self._archive(folder, self._read_record(folder)), record.project_id)

    async def unpack(self, volume: VolumeId) -> None:
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(self._read_record, folder)
        await self._unpackers.run(lambda: self._restore(folder, self._read_record(folder)), record.project_id)

    def close(self) -> None:
        self._packers.close()
        self._unpackers.close()

    def _read_record(self, folder: VolumeFolder) -> VolumeRecord:
        record = folder.read_record()
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.pending:
            raise EngineError("The branch's volume is still being recovered to its point.")
        return record

    def _archive(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        state = folder.read_archived_state()
        if state is None or not state.is_packed:
            _drop_pack(folder)
            owner = folder.owner
            state = ArchivedState(uid=owner.uid, gid=owner.gid, is_packed=self._try_pack(folder, record))
            folder.write_archived_state(state)
        if state.is_packed:
            self._drop_data(folder, record)
        else:
            _drop_recycled_segments(folder)

    def _try_pack(self, folder: VolumeFolder, record: VolumeRecord) -> bool:
        """Whether there is a pack now; there is none when it would be no gain."""
        trees = _trees(folder, record, folder.data)
        held = [measure_disk_usage(tree) for tree in trees.values()]
        own = sum(each.own for each in held)
        whole = own + sum(each.shared for each in held)
        said = sum(map(measure_apparent_size, trees.values()), ApparentSize())
        if own * _MOST_SHRUNK < whole or said.largest > MAX_FILE_BYTES or said.total > 2 * whole + _HOLES:
            return False
        making = _with_suffix(_pack_path(folder), STAGING_SUFFIX)
        try:
            write_pack(trees, making, limit=own, check=self._check_free_space)
        except PackTooLarge:
            making.unlink()
            return False
        except BaseException:
            making.unlink(missing_ok=True)
            raise
        making.rename(_pack_path(folder))
        sync_folder(folder.path)
        return True

    def _drop_data(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        dropping = _with_suffix(folder.data, REMOVAL_SUFFIX)
        self._volumes.driver.remove(dropping)
        if folder.data.exists():
            folder.data.rename(dropping)
            sync_folder(folder.path)
            self._volumes.driver.remove(dropping)
        self._volumes.driver.remove(_with_suffix(folder.data, STAGING_SUFFIX))
        if record.wal_apart:
            self._volumes.driver.remove(folder.external_wal)

    def _restore(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        state = folder.read_archived_state()
        if state is not None and state.is_packed:
            self._drop_data(folder, record)
            self._check_free_space()
            self._unpack(folder, record)
        if state is not None:
            folder.write_archived_state(None)
        _drop_pack(folder)

    def _unpack(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        making = _with_suffix(folder.data, STAGING_SUFFIX)
        try:
            self._volumes.driver.make_folder(making)
            if record.wal_apart:
                folder.external_wal.mkdir(mode=0o700)
            extract_pack(_pack_path(folder), _trees(folder, record, making), self._check_free_space)
        except PackCorrupted as error:
            self._drop_data(folder, record)
            raise EngineError(
                f"The pack {_pack_path(folder)} of an archived branch is broken: put it back from a backup.",
                transient=False,
            ) from error
        except BaseException:
            self._drop_data(folder, record)
            raise
        if record.wal_apart:
            sync_files(folder.external_wal)
            sync_folder(folder.external_wal.parent)
        sync_filesystem(folder.path)
        making.rename(folder.data)
        sync_folder(folder.path)

    def _check_free_space(self) -> None:
        free_space.check_free_space(self._folders, self._floor)


def _pack_path(folder: VolumeFolder) -> Path:
    return folder.path / "data.pack"


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _drop_pack(folder: VolumeFolder) -> None:
    """What is left of one that does not count."""
    for path in (_pack_path(folder), _with_suffix(_pack_path(folder), STAGING_SUFFIX)):
        path.unlink(missing_ok=True)


def _trees(folder: VolumeFolder, record: VolumeRecord, data: Path) -> dict[str, Path]:
    """By the names that they have in the pack."""
    return {"data": data} | ({"wal": folder.external_wal} if record.wal_apart else {})


def _drop_recycled_segments(folder: VolumeFolder) -> None:
    """WAL files that a server which ended well keeps for later use: it makes others. Nobody else has use for them."""
    try:
        control = wal_segments.read_control_file(folder.data)
    except (OSError, struct.error):
        return
    if not control.is_shut_down:
        return
    with open_tenant_folder(folder.pg_wal) as held:
        for name in list(_recycled_segments(held, control.first_segment)):
            unlink(name, held)


def _recycled_segments(held: int, current: str) -> Iterator[str]:
    for name in wal.select_needed_from(current, list_names(held)):
        if name.endswith(".history") or name[8:] <= current[8:]:
            continue
        if not wal.is_initialized(name, read_head(name, held, wal.PAGE_HEADER_BYTES)):
            yield name
