"""Bases: copies of a volume as it was, from which its WAL is replayed to a later point.

A base is a volume under a name of its own, which no row knows and no server opens; its record says whose it is. It is
closed to the tenant.
"""

import asyncio
import secrets
import struct
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bough import clock
from bough.domain import lsn
from bough.engine.local.branches import Branches
from bough.engine.local.computes import labels, segments, standbys
from bough.engine.local.computes.living import Living
from bough.engine.local.installs.installs import Install
from bough.engine.local.origins import Begun
from bough.engine.local.owners import Owners
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.names import base_prefix
from bough.engine.local.volumes.volumes import NewVolume, Volumes
from bough.engine.port import Origin
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    name: VolumeId
    of: VolumeId
    lsn: str  # where it ends: from here on every point can be reached
    at: datetime
    first_segment: str  # where a server begins to read
    folder: VolumeFolder


class Bases:
    def __init__(self, volumes: Volumes, branches: Branches, living: Living, owners: Owners) -> None:
        self._volumes = volumes
        self._branches = branches
        self._living = living
        self._owners = owners

    def of(self, volume: VolumeId) -> list[Base]:
        """Oldest first."""
        folders = {name: self._volumes.folder(name) for name in self._volumes.bases(volume)}
        return in_order([base(name, folder, folder.read()) for name, folder in folders.items()])

    async def take(self, volume: VolumeId, record: VolumeRecord, install: Install) -> Base | None:
        """As the volume is now. None when its server was killed and nobody knows what is in it, or stands still."""
        if not await self._can_be_copied(volume):
            return None
        name = VolumeId(base_prefix(volume) + secrets.token_hex(4))
        blank = VolumeRecord(project_id=record.project_id, install=install.id, base_of=volume)
        try:
            async with self._owners.of(record.project_id) as owner, self._volumes.new(name, blank, owner) as made:
                begun = await self._branches.clone(made, volume, install)
                origin = await asyncio.to_thread(_told, made, begun, record)
                await unbroken(lambda: made.note(origin, begun.reads_from))
        except _OfNoUseError:
            return None
        folder = self._volumes.folder(name)
        return base(name, folder, await asyncio.to_thread(folder.read))

    async def drop(self, one: Base, project: ProjectId) -> None:
        await self._volumes.ensure_closed(one.name, project)

    def hide(self, one: Base) -> None:
        """Nobody recovers by it from now on; to drop it may take long."""
        self._volumes.hide(one.name)

    async def _can_be_copied(self, volume: VolumeId) -> bool:
        folder = self._volumes.folder(volume)
        data = folder.data
        if await asyncio.to_thread(standbys.is_marked, data) or await asyncio.to_thread(folder.put_away) is not None:
            return False
        if await self._living.serves(volume):
            return True
        try:
            is_waiting = await asyncio.to_thread(labels.waiting, data) is not None
            return is_waiting or (await asyncio.to_thread(segments.control, data)).shut_down
        except (OSError, struct.error):
            return False


class _OfNoUseError(Exception):
    """The copy would be of something that nobody knows."""


def _told(made: NewVolume, begun: Begun, record: VolumeRecord) -> Origin:
    """Where and when the copy ends. What sleeps is as it was when it fell asleep, or as it began."""
    origin = begun.origin
    if origin.lsn is None or not wal.is_segment(begun.reads_from):
        raise _OfNoUseError
    if labels.waiting(made.data) is None:
        ended = datetime.fromtimestamp(segments.control(made.data).written_at + 1, UTC)
        return replace(origin, at=min(ended, clock.now()))
    if origin.lsn == record.lsn and record.at is not None:
        return replace(origin, at=record.origin.at)
    return origin


def base(name: VolumeId, folder: VolumeFolder, record: VolumeRecord | None) -> Base | None:
    """None: it is gone, or no base."""
    if record is None or record.lsn is None or record.at is None or record.first_segment is None:
        return None
    if record.base_of is None:
        return None
    return Base(
        name=name,
        of=VolumeId(record.base_of),
        lsn=record.lsn,
        at=datetime.fromisoformat(record.at),
        first_segment=record.first_segment,
        folder=folder,
    )


def in_order(found: list[Base | None]) -> list[Base]:
    """Oldest first."""
    return sorted((each for each in found if each is not None), key=lambda each: lsn.number(each.lsn))
