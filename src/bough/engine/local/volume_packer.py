"""Packs the volume of an archived branch to free disk space, and unpacks it again.

A pack shares no blocks with other volumes. So a volume is packed only if the pack is smaller than what the volume alone
holds; otherwise only its recycled WAL segments are removed. One small file decides: unless it says that the volume is
packed, the data directory is valid and a pack is a leftover; if it does, the pack is valid and a data directory is a
leftover.
"""

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

from bough.engine.local import free_space
from bough.engine.local.computes import process
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.durable_files import sync_files, sync_filesystem, sync_folder
from bough.engine.local.folders import Folders
from bough.engine.local.tenant_file_checks import MAX_FILE_BYTES
from bough.engine.local.tenant_files import list_names, open_tenant_folder, read_head, unlink
from bough.engine.local.threads import FairThreadPool, run_shielded
from bough.engine.local.volumes.atomic_folders import REMOVAL_SUFFIX, STAGING_SUFFIX
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.disk_usage import ApparentSize, measure_apparent_size, measure_disk_usage
from bough.engine.local.volumes.folder import ArchivedState, VolumeFolder, VolumeRecord
from bough.engine.local.volumes.pack_file import PackCorrupted, PackTooLarge, extract_pack, write_pack
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import wal

_MB = 1024**2
_MAX_COMPRESSION = 20  # the best compression ratio to expect
_MAX_HOLE_BYTES = 64 * _MB  # of files; unpacking fills holes


class VolumePacker:
    def __init__(self, volumes: Volumes, running: RunningComputes, folders: Folders, *, floor: int) -> None:
        self._volumes = volumes
        self._running = running
        self._folders = folders
        self._floor = floor
        # No user waits for packing, so it gets few threads. Unpacking, for which a user waits, has its own.
        self._packers = FairThreadPool(2, "packers", per_project=1)
        self._unpackers = FairThreadPool(4, "unpackers", per_project=1)

    async def pack(self, volume: VolumeId) -> None:
        """The caller holds the volume's lock."""
        if await self._running.await_volume_sockets(volume) is not None:
            raise EngineError("A compute still runs on the branch; suspend it first.")
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(self._read_record, folder)
        # Processes that a killed server left could still write.
        await run_shielded(lambda: process.clean_up_after_crash(folder.data, folder.pg_wal_of(record)))
        await self._packers.run(lambda: self._pack(folder, self._read_record(folder)), record.project_id)

    async def unpack(self, volume: VolumeId) -> None:
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(self._read_record, folder)
        await self._unpackers.run(lambda: self._ensure_unpacked(folder, self._read_record(folder)), record.project_id)

    def close(self) -> None:
        self._packers.close()
        self._unpackers.close()

    def _read_record(self, folder: VolumeFolder) -> VolumeRecord:
        record = folder.read_record()
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.is_pending:
            raise EngineError("The branch's volume is still being recovered.")
        return record

    def _pack(self, folder: VolumeFolder, record: VolumeRecord) -> None:
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
        """Write a pack, unless it would free no space; returns whether there is one."""
        trees = _trees(folder, record, folder.data)
        usages = [measure_disk_usage(tree) for tree in trees.values()]
        own = sum(usage.own for usage in usages)
        total = own + sum(usage.shared for usage in usages)
        apparent = sum(map(measure_apparent_size, trees.values()), ApparentSize())
        if (
            own * _MAX_COMPRESSION < total
            or apparent.largest > MAX_FILE_BYTES
            or apparent.total > 2 * total + _MAX_HOLE_BYTES
        ):
            return False
        staged = _with_suffix(_pack_path(folder), STAGING_SUFFIX)
        try:
            write_pack(trees, staged, limit=own, check=self._check_free_space)
        except PackTooLarge:
            staged.unlink()
            return False
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        staged.rename(_pack_path(folder))
        sync_folder(folder.path)
        return True

    def _drop_data(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        hidden = _with_suffix(folder.data, REMOVAL_SUFFIX)
        self._volumes.driver.remove(hidden)
        if folder.data.exists():
            folder.data.rename(hidden)
            sync_folder(folder.path)
            self._volumes.driver.remove(hidden)
        self._volumes.driver.remove(_with_suffix(folder.data, STAGING_SUFFIX))
        if record.has_external_wal:
            self._volumes.driver.remove(folder.external_wal)

    def _ensure_unpacked(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        state = folder.read_archived_state()
        if state is not None and state.is_packed:
            self._drop_data(folder, record)
            self._check_free_space()
            self._extract(folder, record)
        if state is not None:
            folder.write_archived_state(None)
        _drop_pack(folder)

    def _extract(self, folder: VolumeFolder, record: VolumeRecord) -> None:
        staged = _with_suffix(folder.data, STAGING_SUFFIX)
        try:
            self._volumes.driver.make_folder(staged)
            if record.has_external_wal:
                folder.external_wal.mkdir(mode=0o700)
            extract_pack(_pack_path(folder), _trees(folder, record, staged), self._check_free_space)
        except PackCorrupted as error:
            self._drop_data(folder, record)
            raise EngineError(
                f"The pack {_pack_path(folder)} of an archived branch is broken: restore it from a backup.",
                transient=False,
            ) from error
        except BaseException:
            self._drop_data(folder, record)
            raise
        if record.has_external_wal:
            sync_files(folder.external_wal)
            sync_folder(folder.external_wal.parent)
        sync_filesystem(folder.path)
        staged.rename(folder.data)
        sync_folder(folder.path)

    def _check_free_space(self) -> None:
        free_space.check_free_space(self._folders, self._floor)


def _pack_path(folder: VolumeFolder) -> Path:
    return folder.path / "data.pack"


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _drop_pack(folder: VolumeFolder) -> None:
    """Remove a pack that is not valid."""
    for path in (_pack_path(folder), _with_suffix(_pack_path(folder), STAGING_SUFFIX)):
        path.unlink(missing_ok=True)


def _trees(folder: VolumeFolder, record: VolumeRecord, data: Path) -> dict[str, Path]:
    """Return the folders of the volume by their names in the pack."""
    return {"data": data} | ({"wal": folder.external_wal} if record.has_external_wal else {})


def _drop_recycled_segments(folder: VolumeFolder) -> None:
    """Remove WAL segments that a cleanly stopped server keeps for reuse; it creates new ones."""
    try:
        control = read_control_file(folder.data)
    except (OSError, struct.error):
        return
    if not control.is_shut_down:
        return
    with open_tenant_folder(folder.pg_wal) as pg_wal:
        for name in list(_recycled_segments(pg_wal, control.first_segment)):
            unlink(name, pg_wal)


def _recycled_segments(pg_wal: int, current: str) -> Iterator[str]:
    for name in wal.select_needed_from(current, list_names(pg_wal)):
        if name.endswith(".history") or name[8:] <= current[8:]:
            continue
        if not wal.is_initialized(name, read_head(name, pg_wal, wal.PAGE_HEADER_BYTES)):
            yield name
