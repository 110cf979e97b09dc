"""Read replicas: copies of a branch that follow the compute which writes it, and serve what they have of it.

The copy is disposable: when the WAL that it lacks is gone, it is thrown away and made again. From a server that
runs a replica has its WAL by streaming; the files of one that sleeps are handed to it before it starts, because
nobody would send them.
"""

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from bough import log
from bough.engine.local.branches import Branches
from bough.engine.local.computes import labels, segments, standbys
from bough.engine.local.computes.living import Living
from bough.engine.local.computes.primaries import Primaries
from bough.engine.local.folders import Folders
from bough.engine.local.installs.installs import Install
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec, ComputeSpec, Follow
from bough.ids import VolumeId
from bough.postgres import replication, wal
from bough.postgres.backup import first_segment

logger = log.get(room="engine")


class Replicas:
    def __init__(
        self,
        branches: Branches,
        living: Living,
        folders: Folders,
        volumes: Volumes,
        locks: Locks,
        *,
        check: Callable[[], None],
    ) -> None:
        self._branches = branches
        self._living = living
        self._folders = folders
        self._volumes = volumes
        self._locks = locks  # of volumes: one that sleeps must not wake while its WAL is handed on
        self._check = check  # whether there is room for a copy
        self.primaries = Primaries(folders, volumes)

    async def prepared(self, spec: ComputeSpec, follow: Follow, install: Install) -> ComputeSpec:
        """Its volume is there and of use, and whom it follows lets it in; the spec with what it needs for that."""
        await self._leave_other(spec, follow)
        runs = await self._living.serves(spec.volume_id)
        is_usable = runs or await self._volumes.work(lambda: self._is_usable(spec, follow), spec.project_id)
        password = await self._let_in(spec, follow, afresh=not is_usable)
        if not is_usable:
            await self._make(spec, follow, install)
        elif not runs:
            await self._catch_up(spec, follow.volume_id)
        folder = self._volumes.folder(spec.volume_id)
        await unbroken(lambda: standbys.write_passfile(folder, password))
        return replace(spec, settings=await asyncio.to_thread(self._settings, spec, follow, folder))

    async def welcome(self, spec: ComputeSpec) -> None:
        """The compute, which runs, lets in those that follow it. What fails here keeps nobody from being served."""
        slots = frozenset(map(replication.slot_name, spec.replicas))
        sockets = self._folders.socket_folder(spec.endpoint_id)
        try:
            await self.primaries.welcome(spec.volume_id, sockets, slots)
        except (EngineError, OSError) as error:
            logger.warning("replicas_not_let_in", endpoint_id=spec.endpoint_id, reason=str(error))

    async def forget(self, volume: VolumeId) -> None:
        """Whom the replica followed keeps no WAL for it; one that sleeps finds out at its next start."""
        parent = await asyncio.to_thread(self._parent, volume)
        sockets = await self._living.sockets_of(parent) if parent else None
        if sockets is not None:
            with suppress(EngineError):
                await self.primaries.forget(sockets, replication.slot_name(volume))

    async def _leave_other(self, spec: ComputeSpec, follow: Follow) -> None:
        """After a restore the branch has another volume than the one that a running replica follows."""
        if await asyncio.to_thread(self._parent, spec.volume_id) != follow.volume_id:
            await self._living.stop(spec.endpoint_id)

    async def _let_in(self, spec: ComputeSpec, follow: Follow, *, afresh: bool) -> str:
        """Before the copy is made: from then on the WAL that it will lack is kept. The password, in any case."""
        async with self._locks.of(follow.volume_id):
            password = await self.primaries.password(follow.volume_id)
            sockets = await self._living.sockets_of(follow.volume_id)
            if sockets is not None:
                slot = replication.slot_name(spec.volume_id)
                await self.primaries.let_in(follow.volume_id, sockets, slot, afresh=afresh)
        return password

    async def _make(self, spec: ComputeSpec, follow: Follow, install: Install) -> None:
        await self._volumes.ensure_absent(spec.volume_id, spec.project_id)
        await asyncio.to_thread(self._check)
        copy = BranchSpec(
            project_id=spec.project_id,
            volume_id=spec.volume_id,
            install=spec.install,
            parent=follow.volume_id,
            is_replica=True,
        )
        await self._branches.make(copy, install)

    async def _catch_up(self, spec: ComputeSpec, parent: VolumeId) -> None:
        async with self._locks.of(parent):
            if not await self._living.serves(parent):
                await self._volumes.work(lambda: self._hand_on_wal(spec.volume_id, parent), spec.project_id)

    def _hand_on_wal(self, volume: VolumeId, parent: VolumeId) -> None:
        folder, control = self._volumes.folder(volume), segments.control(self._volumes.folder(parent).data)
        record, first = folder.read(), self._last_segment(volume)
        if record is None or first is None or not control.shut_down or record.lsn == control.checkpoint:
            return
        source, owner = self._volumes.wal(parent), folder.owner
        if not segments.has(source, first):  # it is whole: what follows is there
            first = wal.next_segment(first)
        segments.hand_on(
            source, self._volumes.wal(volume), first, lambda old, new: self._volumes.driver.clone_file(old, new, owner)
        )
        folder.write(replace(record, lsn=control.checkpoint))

    def _is_usable(self, spec: ComputeSpec, follow: Follow) -> bool:
        """Whether the WAL that it lacks is still there.

        It reads on where its own ends, and that may be the end of a segment which is there no more.
        """
        record = self._volumes.folder(spec.volume_id).read()
        if record is None or record.follows != follow.volume_id or record.install != spec.install:
            return False
        try:
            own = segments.control(self._volumes.folder(spec.volume_id).data)
            theirs = segments.control(self._volumes.folder(follow.volume_id).data)
        except (OSError, struct.error):
            return False
        last = self._last_segment(spec.volume_id)
        if last is None or own.timeline != theirs.timeline:
            return False
        kept = self._volumes.wal(follow.volume_id)
        return segments.has(kept, last) or segments.has(kept, wal.next_segment(last))

    def _last_segment(self, volume: VolumeId) -> str | None:
        """Where its own WAL ends; None when the beginning is missing."""
        folder = self._volumes.folder(volume)
        label = labels.waiting(folder.data)
        first = segments.control(folder.data).first_segment if label is None else first_segment(label)
        return None if first is None else segments.last_from(self._volumes.wal(volume), first)

    def _settings(self, spec: ComputeSpec, follow: Follow, folder: VolumeFolder) -> dict[str, str]:
        """With less than the server had whose WAL it replays it would stand still, or not even start."""
        settings = dict(spec.settings)
        for data in (folder.data, self._volumes.folder(follow.volume_id).data):
            settings = replication.raised(settings, segments.control(data).limits)
        if follow.endpoint_id is not None:
            door = self._folders.side_door(follow.endpoint_id)
            slot = replication.slot_name(spec.volume_id)
            settings |= replication.following(str(door), str(standbys.passfile(folder)), slot)
        return settings

    def _parent(self, volume: VolumeId) -> VolumeId | None:
        record = self._volumes.folder(volume).read()
        return record.follows if record else None
