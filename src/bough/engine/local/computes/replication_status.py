"""How read replicas stand: whether they follow, and how far behind they are.

Asked of the replica, and of whom it follows: a server that runs says it itself, for one that sleeps its files do.
"""

import asyncio
import struct
from dataclasses import dataclass
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import query_results, session, wal_segments
from bough.engine.local.computes.replication_slots import ReplicationSlots
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, ReplicaState
from bough.ids import EndpointId, VolumeId
from bough.postgres import replication, wal
from bough.postgres.replication import ReplicaStatus

_MOMENT = 0.1  # seconds in which what was just written is usually replayed


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
        """None when it is no replica, or does not run."""
        record, sockets = await self._replica(endpoint)
        if record is None or record.primary_volume_id is None or sockets is None:
            return None
        standing = await _read_standby_status(sockets)
        if not standing.is_in_recovery:
            return ReplicaState.LOST
        if standing.is_paused:
            return ReplicaState.BEHIND
        if standing.is_streaming or standing.received_lsn is None:
            return ReplicaState.FOLLOWING
        return await self._without_stream(record.primary_volume_id, record, standing.received_lsn)

    async def measure_lag(self, endpoint: EndpointId) -> ReplicationLag:
        record, sockets = await self._replica(endpoint)
        if record is None or record.primary_volume_id is None or sockets is None:
            return ReplicationLag()
        try:
            end = await self._end(record.primary_volume_id)
        except EngineError:  # whoever does not answer keeps nobody from measuring the others
            end = None
        if end is None:
            return ReplicationLag()
        standing = await _read_standby_status(sockets)
        if (standing.replayed_lsn or 0) < end:
            await asyncio.sleep(_MOMENT)
            standing = await _read_standby_status(sockets)
        if standing.replayed_lsn is None:
            return ReplicationLag()
        behind = max(0, end - standing.replayed_lsn)
        return ReplicationLag(bytes=behind, seconds=standing.replay_age_seconds if behind else 0.0)

    async def _without_stream(self, parent: VolumeId, record: VolumeRecord, has: int) -> ReplicaState:
        sockets = await self._running.find_volume_sockets(parent)
        if sockets is not None:
            written = await self._slots.read_flush_position(sockets)
            if has > written or (has < written and not await asyncio.to_thread(self._keeps, parent, has)):
                return ReplicaState.LOST
            return ReplicaState.WAITING
        end = await self._end(parent)
        given = lsn.to_int(record.origin_lsn) if record.origin_lsn else 0
        return ReplicaState.BEHIND if end is not None and max(has, given) < end else ReplicaState.FOLLOWING

    def _keeps(self, parent: VolumeId, position: int) -> bool:
        timeline = wal_segments.read_control_file(self._volumes.folder(parent).data).timeline
        return wal_segments.has_segment(self._volumes.pg_wal_path(parent), wal.segment_name(timeline, position))

    async def _end(self, parent: VolumeId) -> int | None:
        """Where the WAL ends that is to be replayed; None when nobody can say, as of a server that was killed."""
        sockets = await self._running.find_volume_sockets(parent)
        if sockets is not None:
            return await self._slots.read_flush_position(sockets)
        if await self._running.has_compute(parent):
            return None
        try:
            control = await asyncio.to_thread(wal_segments.read_control_file, self._volumes.folder(parent).data)
        except (OSError, struct.error):
            return None
        return lsn.to_int(control.checkpoint) if control.is_shut_down else None

    async def _replica(self, endpoint: EndpointId) -> tuple[VolumeRecord | None, Path | None]:
        run = await asyncio.to_thread(self._running.runs.get, endpoint)
        if run is None:
            return None, None
        record = await asyncio.to_thread(self._volumes.folder(run.volume_id).read_record)
        return record, await self._running.find_sockets(endpoint)


async def _read_standby_status(sockets: Path) -> ReplicaStatus:
    async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as ours:
        [row] = await ours.fetch(replication.SELECT_REPLICA_STATUS)
        return query_results.parse_standby_status(row)
