"""The state and the lag of read replicas.

Both depend on the replica and on its primary. A running primary is queried; the files of a suspended one are read.
"""

import asyncio
import struct
from dataclasses import dataclass
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import query_results, wal_segments
from bough.engine.local.computes.replication_slots import ReplicationSlots
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.session import INSPECTION_LIMITS, open_session
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, ReplicaState
from bough.ids import EndpointId, VolumeId
from bough.postgres import replication, wal
from bough.postgres.replication import ReplicaStatus

_REPLAY_PAUSE = 0.1  # seconds in which a replica usually replays what was just written


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationLag:
    bytes: int | None = None
    seconds: float | None = None


class ReplicationMonitor:
    def __init__(self, running: RunningComputes, volumes: Volumes, slots: ReplicationSlots) -> None:
        self._running = running
        self._volumes = volumes
        self._slots = slots

    async def read_state(self, endpoint: EndpointId) -> ReplicaState | None:
        """Return None when the endpoint is not a read replica or does not run."""
        record, sockets = await self._find_replica(endpoint)
        if record is None or record.primary_volume_id is None or sockets is None:
            return None
        status = await _read_standby_status(sockets)
        if not status.is_in_recovery:
            return ReplicaState.LOST
        if status.is_paused:
            return ReplicaState.BEHIND
        if status.is_streaming or status.received_lsn is None:
            return ReplicaState.FOLLOWING
        return await self._read_disconnected_state(record.primary_volume_id, record, status.received_lsn)

    async def measure_lag(self, endpoint: EndpointId) -> ReplicationLag:
        record, sockets = await self._find_replica(endpoint)
        if record is None or record.primary_volume_id is None or sockets is None:
            return ReplicationLag()
        try:
            end = await self._read_primary_end(record.primary_volume_id)
        except EngineError:  # an unresponsive primary does not prevent the other measurements
            end = None
        if end is None:
            return ReplicationLag()
        status = await _read_standby_status(sockets)
        if (status.replayed_lsn or 0) < end:
            await asyncio.sleep(_REPLAY_PAUSE)
            status = await _read_standby_status(sockets)
        if status.replayed_lsn is None:
            return ReplicationLag()
        lag_bytes = max(0, end - status.replayed_lsn)
        return ReplicationLag(bytes=lag_bytes, seconds=status.replay_age_seconds if lag_bytes else 0.0)

    async def _read_disconnected_state(self, primary: VolumeId, record: VolumeRecord, received: int) -> ReplicaState:
        """Return the state of a replica that does not stream."""
        sockets = await self._running.find_volume_sockets(primary)
        if sockets is not None:
            flushed = await self._slots.read_flush_position(sockets)
            if received > flushed or (
                received < flushed and not await asyncio.to_thread(self._has_wal_from, primary, received)
            ):
                return ReplicaState.LOST
            return ReplicaState.WAITING
        end = await self._read_primary_end(primary)
        copied = lsn.to_int(record.origin_lsn) if record.origin_lsn else 0
        return ReplicaState.BEHIND if end is not None and max(received, copied) < end else ReplicaState.FOLLOWING

    def _has_wal_from(self, primary: VolumeId, position: int) -> bool:
        timeline = read_control_file(self._volumes.folder(primary).data).timeline
        return wal_segments.has_segment(self._volumes.pg_wal_path(primary), wal.segment_name(timeline, position))

    async def _read_primary_end(self, primary: VolumeId) -> int | None:
        """Return the end of the primary's WAL, or None when it is unknown, as after a crash."""
        sockets = await self._running.find_volume_sockets(primary)
        if sockets is not None:
            return await self._slots.read_flush_position(sockets)
        if await self._running.has_compute(primary):
            return None
        try:
            control = await asyncio.to_thread(read_control_file, self._volumes.folder(primary).data)
        except (OSError, struct.error):
            return None
        return lsn.to_int(control.checkpoint) if control.is_shut_down else None

    async def _find_replica(self, endpoint: EndpointId) -> tuple[VolumeRecord | None, Path | None]:
        run = await self._running.find_run(endpoint)
        if run is None:
            return None, None
        record = await asyncio.to_thread(self._volumes.folder(run.volume_id).read_record)
        return record, await self._running.find_sockets(endpoint)


async def _read_standby_status(sockets: Path) -> ReplicaStatus:
    async with open_session(sockets, limits=INSPECTION_LIMITS) as session:
        [row] = await session.fetch(replication.SELECT_REPLICA_STATUS)
        return query_results.parse_standby_status(row)
