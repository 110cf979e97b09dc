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
from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.computes import backup_label, standby_files, wal_segments
from bough.engine.local.computes.replication_slots import ReplicationSlots
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.folders import Folders
from bough.engine.local.installs.installs import Install
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec, ComputeSpec, PrimarySpec
from bough.ids import VolumeId
from bough.postgres import replication, wal
from bough.postgres.backup import parse_first_segment

logger = log.get_logger(component="engine")


class Replicas:
    def __init__(
        self,
        branch_volumes: BranchVolumes,
        running: RunningComputes,
        folders: Folders,
        volumes: Volumes,
        locks: NamedLocks,
        *,
        check_free_space: Callable[[], None],
    ) -> None:
        self._branch_volumes = branch_volumes
        self._running = running
        self._folders = folders
        self._volumes = volumes
        self._locks = locks  # of volumes: one that sleeps must not wake while its WAL is handed on
        self._check = check_free_space  # whether there is room for a copy
        self.slots = ReplicationSlots(folders, volumes)

    async def prepare(self, spec: ComputeSpec, follow: PrimarySpec, install: Install) -> ComputeSpec:
        """Its volume is there and of use, and whom it follows lets it in; the spec with what it needs for that."""
        await self._stop_if_primary_changed(spec, follow)
        runs = await self._running.has_compute(spec.volume_id)
        is_usable = runs or await self._volumes.run_blocking(lambda: self._is_usable(spec, follow), spec.project_id)
        password = await self._ensure_slot(spec, follow, afresh=not is_usable)
        if not is_usable:
            await self._make(spec, follow, install)
        elif not runs:
            await self._catch_up(spec, follow.volume_id)
        folder = self._volumes.folder(spec.volume_id)
        await run_shielded(lambda: standby_files.write_passfile(folder, password))
        return replace(spec, settings=await asyncio.to_thread(self._settings, spec, follow, folder))

    async def sync_slots(self, spec: ComputeSpec) -> None:
        """The compute, which runs, lets in those that follow it. What fails here keeps nobody from being served."""
        slots = frozenset(map(replication.slot_name, spec.replica_volumes))
        sockets = self._folders.socket_folder(spec.endpoint_id)
        try:
            await self.slots.sync_slots(spec.volume_id, sockets, slots)
        except (EngineError, OSError) as error:
            logger.warning("replicas_not_let_in", endpoint_id=spec.endpoint_id, reason=str(error))

    async def drop_slot(self, volume: VolumeId) -> None:
        """Whom the replica followed keeps no WAL for it; one that sleeps finds out at its next start."""
        parent = await asyncio.to_thread(self._parent, volume)
        sockets = await self._running.find_volume_sockets(parent) if parent else None
        if sockets is not None:
            with suppress(EngineError):
                await self.slots.drop_slot(sockets, replication.slot_name(volume))

    async def _stop_if_primary_changed(self, spec: ComputeSpec, follow: PrimarySpec) -> None:
        """After a restore the branch has another volume than the one that a running replica follows."""
        if await asyncio.to_thread(self._parent, spec.volume_id) != follow.volume_id:
            await self._running.stop(spec.endpoint_id)

    async def _ensure_slot(self, spec: ComputeSpec, follow: PrimarySpec, *, afresh: bool) -> str:
        """Before the copy is made: from then on the WAL that it will lack is kept. The password, in any case."""
        async with self._locks.lock(follow.volume_id):
            password = await self.slots.ensure_password(follow.volume_id)
            sockets = await self._running.find_volume_sockets(follow.volume_id)
            if sockets is not None:
                slot = replication.slot_name(spec.volume_id)
                await self.slots.ensure_slot(follow.volume_id, sockets, slot, recreate=afresh)
        return password

    async def _make(self, spec: ComputeSpec, follow: PrimarySpec, install: Install) -> None:
        await self._volumes.ensure_absent(spec.volume_id, spec.project_id)
        await asyncio.to_thread(self._check)
        copy = BranchSpec(
            project_id=spec.project_id,
            volume_id=spec.volume_id,
            install=spec.install,
            parent=follow.volume_id,
            is_replica=True,
        )
        await self._branch_volumes.create(copy, install)

    async def _catch_up(self, spec: ComputeSpec, parent: VolumeId) -> None:
        async with self._locks.lock(parent):
            if not await self._running.has_compute(parent):
                await self._volumes.run_blocking(lambda: self._copy_wal(spec.volume_id, parent), spec.project_id)

    def _copy_wal(self, volume: VolumeId, parent: VolumeId) -> None:
        folder, control = (
            self._volumes.folder(volume),
            wal_segments.read_control_file(self._volumes.folder(parent).data),
        )
        record, first = folder.read_record(), self._last_segment(volume)
        if record is None or first is None or not control.is_shut_down or record.lsn == control.checkpoint:
            return
        source, owner = self._volumes.pg_wal_path(parent), folder.owner
        if not wal_segments.has_segment(source, first):  # it is whole: what follows is there
            first = wal.next_segment(first)
        wal_segments.copy_segments(
            source,
            self._volumes.pg_wal_path(volume),
            first,
            lambda old, new: self._volumes.driver.clone_file(old, new, owner),
        )
        folder.write_record(replace(record, lsn=control.checkpoint))

    def _is_usable(self, spec: ComputeSpec, follow: PrimarySpec) -> bool:
        """Whether the WAL that it lacks is still there.

        It reads on where its own ends, and that may be the end of a segment which is there no more.
        """
        record = self._volumes.folder(spec.volume_id).read_record()
        if record is None or record.primary_volume_id != follow.volume_id or record.install != spec.install:
            return False
        try:
            own = wal_segments.read_control_file(self._volumes.folder(spec.volume_id).data)
            theirs = wal_segments.read_control_file(self._volumes.folder(follow.volume_id).data)
        except (OSError, struct.error):
            return False
        last = self._last_segment(spec.volume_id)
        if last is None or own.timeline != theirs.timeline:
            return False
        kept = self._volumes.pg_wal_path(follow.volume_id)
        return wal_segments.has_segment(kept, last) or wal_segments.has_segment(kept, wal.next_segment(last))

    def _last_segment(self, volume: VolumeId) -> str | None:
        """Where its own WAL ends; None when the beginning is missing."""
        folder = self._volumes.folder(volume)
        label = backup_label.read_pending_label(folder.data)
        first = (
            wal_segments.read_control_file(folder.data).first_segment if label is None else parse_first_segment(label)
        )
        return None if first is None else wal_segments.find_last_contiguous(self._volumes.pg_wal_path(volume), first)

    def _settings(self, spec: ComputeSpec, follow: PrimarySpec, folder: VolumeFolder) -> dict[str, str]:
        """With less than the server had whose WAL it replays it would stand still, or not even start."""
        settings = dict(spec.settings)
        for data in (folder.data, self._volumes.folder(follow.volume_id).data):
            settings = replication.raise_to_minimums(settings, wal_segments.read_control_file(data).limits)
        if follow.endpoint_id is not None:
            door = self._folders.replica_socket_folder(follow.endpoint_id)
            slot = replication.slot_name(spec.volume_id)
            settings |= replication.standby_settings(str(door), str(standby_files.passfile_path(folder)), slot)
        return settings

    def _parent(self, volume: VolumeId) -> VolumeId | None:
        record = self._volumes.folder(volume).read_record()
        return record.primary_volume_id if record else None
