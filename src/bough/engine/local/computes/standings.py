"""How read replicas stand: whether they follow, and how far behind they are.

Asked of the replica, and of whom it follows: a server that runs says it itself, for one that sleeps its files do.
"""

import asyncio
import struct
from dataclasses import dataclass
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import answers, segments, session
from bough.engine.local.computes.living import Living
from bough.engine.local.computes.primaries import Primaries
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Following
from bough.ids import EndpointId, VolumeId
from bough.postgres import replication, wal
from bough.postgres.replication import Standing

_MOMENT = 0.1  # seconds in which what was just written is usually replayed


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    bytes: int | None = None
    seconds: float | None = None


class Standings:
    def __init__(self, living: Living, volumes: Volumes, primaries: Primaries) -> None:
        self._living = living
        self._volumes = volumes
        self._primaries = primaries

    async def following(self, endpoint: EndpointId) -> Following | None:
        """None when it is no replica, or does not run."""
        record, sockets = await self._replica(endpoint)
        if record is None or record.follows is None or sockets is None:
            return None
        standing = await _standing(sockets)
        if not standing.follows:
            return Following.LOST
        if standing.is_paused:
            return Following.BEHIND
        if standing.streams or standing.has is None:
            return Following.FOLLOWS
        return await self._without_stream(record.follows, record, standing.has)

    async def lag(self, endpoint: EndpointId) -> Lag:
        record, sockets = await self._replica(endpoint)
        if record is None or record.follows is None or sockets is None:
            return Lag()
        try:
            end = await self._end(record.follows)
        except EngineError:  # whoever does not answer keeps nobody from measuring the others
            end = None
        if end is None:
            return Lag()
        standing = await _standing(sockets)
        if (standing.replayed or 0) < end:
            await asyncio.sleep(_MOMENT)
            standing = await _standing(sockets)
        if standing.replayed is None:
            return Lag()
        behind = max(0, end - standing.replayed)
        return Lag(bytes=behind, seconds=standing.age if behind else 0.0)

    async def _without_stream(self, parent: VolumeId, record: VolumeRecord, has: int) -> Following:
        sockets = await self._living.sockets_of(parent)
        if sockets is not None:
            written = await self._primaries.written(sockets)
            if has > written or (has < written and not await asyncio.to_thread(self._keeps, parent, has)):
                return Following.LOST
            return Following.WAITS
        end = await self._end(parent)
        given = lsn.number(record.lsn) if record.lsn else 0
        return Following.BEHIND if end is not None and max(has, given) < end else Following.FOLLOWS

    def _keeps(self, parent: VolumeId, position: int) -> bool:
        timeline = segments.control(self._volumes.folder(parent).data).timeline
        return segments.has(self._volumes.wal(parent), wal.segment_name(timeline, position))

    async def _end(self, parent: VolumeId) -> int | None:
        """Where the WAL ends that is to be replayed; None when nobody can say, as of a server that was killed."""
        sockets = await self._living.sockets_of(parent)
        if sockets is not None:
            return await self._primaries.written(sockets)
        if await self._living.serves(parent):
            return None
        try:
            control = await asyncio.to_thread(segments.control, self._volumes.folder(parent).data)
        except (OSError, struct.error):
            return None
        return lsn.number(control.checkpoint) if control.shut_down else None

    async def _replica(self, endpoint: EndpointId) -> tuple[VolumeRecord | None, Path | None]:
        run = await asyncio.to_thread(self._living.runs.get, endpoint)
        if run is None:
            return None, None
        record = await asyncio.to_thread(self._volumes.folder(run.volume_id).read)
        return record, await self._living.sockets(endpoint)


async def _standing(sockets: Path) -> Standing:
    async with session.opened(sockets, limits=session.LOOK) as ours:
        [row] = await ours.rows(replication.STANDING)
        return answers.standing(row)
