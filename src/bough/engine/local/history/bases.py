"""Bases: copies of a volume, from which its WAL is replayed to a later point.

A base is itself a volume, which no row refers to and no server opens; its record says which volume it is a base of.
Its folder is closed to the tenant.
"""

import asyncio
import secrets
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bough import clock
from bough.domain import lsn
from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.computes import backup_label, standby_files
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.origins import VolumeStart
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.new_volume import NewVolume
from bough.engine.local.volumes.volume_names import base_prefix
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import Origin
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal

_Clone = Callable[[NewVolume, VolumeId], Awaitable[VolumeStart]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    name: VolumeId
    volume_id: VolumeId
    lsn: str  # where it ends; every later point can be reached from it
    at: datetime
    first_segment: str  # the first segment that a server reads
    folder: VolumeFolder


class Bases:
    def __init__(
        self, volumes: Volumes, branch_volumes: BranchVolumes, running: RunningComputes, project_users: ProjectUsers
    ) -> None:
        self._volumes = volumes
        self._branch_volumes = branch_volumes
        self._running = running
        self._project_users = project_users

    def list_bases(self, volume: VolumeId) -> list[Base]:
        """Return the bases of the volume, oldest first."""
        folders = {name: self._volumes.folder(name) for name in self._volumes.list_bases(volume)}
        return sort_bases([parse_base(name, folder, folder.read_record()) for name, folder in folders.items()])

    async def take(self, volume: VolumeId, record: VolumeRecord) -> Base | None:
        """Copy the volume as it is now.

        Return None if the state of its files is unknown because its server was killed, or if the volume is read-only
        or archived.
        """
        return await self._take(volume, record, self.new_name(volume), self._branch_volumes.clone)

    async def take_stopped(self, volume: VolumeId, record: VolumeRecord, name: VolumeId) -> Base | None:
        """Like `take`, for a caller that holds the volume's lock and knows that no compute runs on it."""
        return await self._take(volume, record, name, self._branch_volumes.clone_stopped)

    def new_name(self, volume: VolumeId) -> VolumeId:
        return VolumeId(base_prefix(volume) + secrets.token_hex(4))

    async def _take(self, volume: VolumeId, record: VolumeRecord, name: VolumeId, clone: _Clone) -> Base | None:
        if not await self._can_be_copied(volume):
            return None
        base_record = VolumeRecord(project_id=record.project_id, template=record.template, base_of=volume)
        try:
            async with (
                self._project_users.acquire(record.project_id) as owner,
                self._volumes.create(name, base_record, owner) as new_volume,
            ):
                start = await clone(new_volume, volume)
                origin = await asyncio.to_thread(_resolve_end, new_volume, start, record)
                await run_shielded(lambda: new_volume.write_origin(origin, start.recovery_segment))
        except _UnusableCopyError:
            return None
        folder = self._volumes.folder(name)
        return parse_base(name, folder, await asyncio.to_thread(folder.read_record))

    async def drop(self, base: Base, project: ProjectId) -> None:
        await self._volumes.ensure_data_absent(base.name, project)

    def hide(self, base: Base) -> None:
        """Keep recoveries from using the base until `drop`, which may take long, has removed it."""
        self._volumes.hide(base.name)

    async def _can_be_copied(self, volume: VolumeId) -> bool:
        folder = self._volumes.folder(volume)
        data = folder.data
        if (
            await asyncio.to_thread(standby_files.has_signal, data)
            or await asyncio.to_thread(folder.read_archived_state) is not None
        ):
            return False
        if await self._running.has_compute(volume):
            return True
        try:
            is_unopened = await asyncio.to_thread(backup_label.read_pending_label, data) is not None
            return is_unopened or (await asyncio.to_thread(read_control_file, data)).is_shut_down
        except (OSError, struct.error):
            return False


class _UnusableCopyError(Exception):
    """It is unknown where the copy ends."""


def _resolve_end(new_volume: NewVolume, start: VolumeStart, record: VolumeRecord) -> Origin:
    """Return where and when the copy ends: for a stopped volume, when it was stopped or created."""
    origin = start.origin
    if origin.lsn is None or not wal.is_segment(start.recovery_segment):
        raise _UnusableCopyError
    if backup_label.read_pending_label(new_volume.data) is None:
        stopped_at = datetime.fromtimestamp(read_control_file(new_volume.data).written_at + 1, UTC)
        return replace(origin, at=min(stopped_at, clock.now()))
    if origin.lsn == record.origin_lsn and record.origin_at is not None:
        return replace(origin, at=record.origin.at)
    return origin


def parse_base(name: VolumeId, folder: VolumeFolder, record: VolumeRecord | None) -> Base | None:
    """Return None if the volume does not exist or is not a base."""
    if record is None or record.origin_lsn is None or record.origin_at is None or record.first_segment is None:
        return None
    if record.base_of is None:
        return None
    return Base(
        name=name,
        volume_id=VolumeId(record.base_of),
        lsn=record.origin_lsn,
        at=datetime.fromisoformat(record.origin_at),
        first_segment=record.first_segment,
        folder=folder,
    )


def sort_bases(bases: list[Base | None]) -> list[Base]:
    """Return the bases that exist, oldest first."""
    return sorted((each for each in bases if each is not None), key=lambda each: lsn.to_int(each.lsn))
