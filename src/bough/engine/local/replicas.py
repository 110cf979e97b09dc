"""Read replicas: standbys on copies of a branch, which follow the compute that writes the branch.

A copy is disposable: when WAL that it needs is gone, it is created again. A replica streams WAL from a running primary.
The WAL of a stopped primary is copied to it before it starts, because no server would send it.
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
from bough.engine.local.volumes.control_files import read_control_file
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
        slots: ReplicationSlots,
        check_can_create: Callable[[], None],
    ) -> None:
        self._branch_volumes = branch_volumes
        self._running = running
        self._folders = folders
        self._volumes = volumes
        self._locks = locks  # of volumes: a stopped primary must not start while its WAL is copied
        self._check_can_create = check_can_create
        self._slots = slots

    async def prepare(self, spec: ComputeSpec, primary: PrimarySpec, install: Install) -> ComputeSpec:
        """Ensure a usable volume and a replication slot; returns the spec with the settings of a standby."""
        await self._stop_if_primary_changed(spec, primary)
        is_running = await self._running.has_compute(spec.volume_id)
        is_usable = is_running or await self._volumes.run_blocking(
            lambda: self._is_usable(spec, primary), spec.project_id
        )
        password = await self._ensure_slot(spec, primary, recreate=not is_usable)
        if not is_usable or (not is_running and not await self._catch_up(spec, primary.volume_id)):
            await self._create(spec, primary, install)
        folder = self._volumes.folder(spec.volume_id)
        await run_shielded(lambda: standby_files.write_passfile(folder, password))
        return replace(spec, settings=await asyncio.to_thread(self._settings, spec, primary, folder))

    async def sync_slots(self, spec: ComputeSpec) -> None:
        """Update the slots of a running primary. Errors are logged, because the primary serves without replicas."""
        slots = frozenset(map(replication.slot_name, spec.replica_volumes))
        sockets = self._folders.socket_folder(spec.endpoint_id)
        try:
            await self._slots.sync_slots(spec.volume_id, sockets, slots)
        except (EngineError, OSError) as error:
            logger.warning("replication_slots_not_updated", endpoint_id=spec.endpoint_id, reason=str(error))

    async def drop_slot(self, volume: VolumeId) -> None:
        """Make the primary stop retaining WAL for the replica; a stopped primary does so at its next start."""
        primary = await asyncio.to_thread(self._primary_of, volume)
        sockets = await self._running.find_volume_sockets(primary) if primary else None
        if sockets is not None:
            with suppress(EngineError):
                await self._slots.drop_slot(sockets, replication.slot_name(volume))

    async def _stop_if_primary_changed(self, spec: ComputeSpec, primary: PrimarySpec) -> None:
        """After a restore, the branch has another volume than the one a running replica follows."""
        if await asyncio.to_thread(self._primary_of, spec.volume_id) != primary.volume_id:
            await self._running.stop(spec.endpoint_id)

    async def _ensure_slot(self, spec: ComputeSpec, primary: PrimarySpec, *, recreate: bool) -> str:
        """Create the slot before the copy, so that the WAL it will need is retained; returns the password."""
        async with self._locks.lock(primary.volume_id):
            password = await self._slots.ensure_password(primary.volume_id)
            sockets = await self._running.find_volume_sockets(primary.volume_id)
            if sockets is not None:
                slot = replication.slot_name(spec.volume_id)
                await self._slots.ensure_slot(primary.volume_id, sockets, slot, recreate=recreate)
        return password

    async def _create(self, spec: ComputeSpec, primary: PrimarySpec, install: Install) -> None:
        await self._volumes.ensure_absent(spec.volume_id, spec.project_id)
        await asyncio.to_thread(self._check_can_create)
        copy = BranchSpec(
            project_id=spec.project_id,
            volume_id=spec.volume_id,
            install=spec.install,
            source_volume_id=primary.volume_id,
            is_replica=True,
        )
        await self._branch_volumes.create(copy, install)

    async def _catch_up(self, spec: ComputeSpec, primary: VolumeId) -> bool:
        """Copy the WAL that a stopped primary has written since; returns False if some of it is gone."""
        async with self._locks.lock(primary):
            if await self._running.has_compute(primary):
                return True
            return await self._volumes.run_blocking(lambda: self._copy_wal(spec.volume_id, primary), spec.project_id)

    def _copy_wal(self, volume: VolumeId, primary: VolumeId) -> bool:
        folder, control = (
            self._volumes.folder(volume),
            read_control_file(self._volumes.folder(primary).data),
        )
        record, first = folder.read_record(), self._last_segment(volume)
        if record is None or first is None or not control.is_shut_down or record.origin_lsn == control.checkpoint:
            return True
        source, owner = self._volumes.pg_wal_path(primary), folder.owner
        if not wal_segments.has_segment(source, first) and self._has_replayed(volume, first):
            first = wal.next_segment(first)
        if not wal_segments.has_segment(source, first):
            return False
        wal_segments.copy_segments(
            source,
            self._volumes.pg_wal_path(volume),
            first,
            lambda old, new: self._volumes.driver.clone_file(old, new, owner),
        )
        folder.write_record(replace(record, origin_lsn=control.checkpoint))
        return True

    def _has_replayed(self, volume: VolumeId, segment: str) -> bool:
        """Return whether the replica is known to have the whole segment; the end of an incomplete one is zeros."""
        position = read_control_file(self._volumes.folder(volume).data).min_recovery_point
        return wal.segment_number_at(position) > wal.segment_number(segment)

    def _is_usable(self, spec: ComputeSpec, primary: PrimarySpec) -> bool:
        """Return whether the WAL that the copy needs next may still exist.

        Its own WAL may end with a complete segment that the primary no longer has. If it is not complete, a running
        primary refuses to stream it, and the state of the replica becomes LOST.
        """
        record = self._volumes.folder(spec.volume_id).read_record()
        if record is None or record.primary_volume_id != primary.volume_id:
            return False
        try:
            own_control = read_control_file(self._volumes.folder(spec.volume_id).data)
            primary_control = read_control_file(self._volumes.folder(primary.volume_id).data)
        except (OSError, struct.error):
            return False
        last = self._last_segment(spec.volume_id)
        if last is None or own_control.timeline != primary_control.timeline:
            return False
        pg_wal = self._volumes.pg_wal_path(primary.volume_id)
        return wal_segments.has_segment(pg_wal, last) or wal_segments.has_segment(pg_wal, wal.next_segment(last))

    def _last_segment(self, volume: VolumeId) -> str | None:
        """Return the last segment of its own WAL; None if the first one is missing."""
        folder = self._volumes.folder(volume)
        label = backup_label.read_pending_label(folder.data)
        first = read_control_file(folder.data).first_segment if label is None else parse_first_segment(label)
        return None if first is None else wal_segments.find_last_contiguous(self._volumes.pg_wal_path(volume), first)

    def _settings(self, spec: ComputeSpec, primary: PrimarySpec, folder: VolumeFolder) -> dict[str, str]:
        """A standby stops replaying or does not start with lower limits than the server that wrote the WAL had."""
        settings = dict(spec.settings)
        for data in (folder.data, self._volumes.folder(primary.volume_id).data):
            settings = replication.raise_to_minimums(settings, read_control_file(data).limits)
        if primary.endpoint_id is not None:
            sockets = self._folders.replica_socket_folder(primary.endpoint_id)
            slot = replication.slot_name(spec.volume_id)
            settings |= replication.standby_settings(str(sockets), str(standby_files.passfile_path(folder)), slot)
        return settings

    def _primary_of(self, volume: VolumeId) -> VolumeId | None:
        record = self._volumes.folder(volume).read_record()
        return record.primary_volume_id if record else None
