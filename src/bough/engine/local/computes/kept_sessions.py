"""Sessions that stay open between two readings of a compute's statistics.

A new session costs a compute and the platform about thirty times as much as a statement in an open one. Each open
session occupies one connection of its compute and about three megabytes, so their number is limited. A session has no
open transaction, does not count as activity, and ends at once when the compute shuts down.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from bough.engine.local.computes import query_results
from bough.engine.local.computes.compute_connection import (
    SESSION_ERRORS,
    ComputeConnection,
    SessionLimits,
    connect,
    convert_error,
)
from bough.engine.local.computes.limited_connection import DRIVER_ERRORS, LimitedEventLoop
from bough.engine.local.computes.message_headers import ResponseLimits
from bough.engine.port import ComputeStatistics
from bough.ids import EndpointId, VolumeId
from bough.postgres import MAINTENANCE_DATABASE
from bough.postgres.database_statistics import SELECT_STATISTICS

MAX_SESSIONS = 512
SAMPLING_LIMITS = SessionLimits(
    connect_timeout=2.0,
    statement_timeout=2.0,
    total_timeout=4.0,
    lock_timeout="1s",
    response=ResponseLimits(128 * 1024, 1000),
)
_CLOSE_TIMEOUT = 1.0


class KeptSession:
    """A session in one run of a compute."""

    def __init__(self, volume_id: VolumeId, connection: Any, loop: LimitedEventLoop) -> None:
        assert loop.protocol is not None
        self._volume_id = volume_id
        self._connection = connection
        self._protocol = loop.protocol
        self._session = ComputeConnection(connection, loop.protocol, SAMPLING_LIMITS.statement_timeout)

    @classmethod
    async def open(cls, volume_id: VolumeId, sockets: Path) -> "KeptSession":
        loop = LimitedEventLoop(SAMPLING_LIMITS.response)
        try:
            return cls(volume_id, await connect(loop, sockets, MAINTENANCE_DATABASE, 0, SAMPLING_LIMITS), loop)
        except SESSION_ERRORS as error:
            raise convert_error(error, loop.protocol) from error

    @property
    def is_open(self) -> bool:
        return not self._connection.is_closed()

    async def read_statistics(self) -> ComputeStatistics:
        try:
            [row] = await self._session.fetch(SELECT_STATISTICS)
            return query_results.parse_statistics(row, self._volume_id)
        except SESSION_ERRORS as error:
            raise convert_error(error, self._protocol) from error

    async def close(self) -> None:
        with suppress(*DRIVER_ERRORS):
            await self._connection.close(timeout=_CLOSE_TIMEOUT)

    def terminate(self) -> None:
        self._connection.terminate()


class KeptSessions:
    def __init__(self) -> None:
        self._sessions: dict[EndpointId, KeptSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def take(self, endpoint: EndpointId) -> KeptSession | None:
        """Return the open session in the compute. It is kept no longer, unless `keep` is called."""
        session = self._sessions.pop(endpoint, None)
        return session if session is not None and session.is_open else None

    async def keep(self, endpoint: EndpointId, session: KeptSession) -> None:
        """Keep the session, or close it if there are too many."""
        if len(self._sessions) < MAX_SESSIONS and endpoint not in self._sessions:
            self._sessions[endpoint] = session
        else:
            await session.close()

    def drop(self, endpoint: EndpointId) -> None:
        """End the session at once, because its compute is about to stop."""
        session = self._sessions.pop(endpoint, None)
        if session is not None:
            session.terminate()

    async def retain(self, endpoints: Collection[EndpointId]) -> None:
        closing = [self._sessions.pop(each) for each in self._sessions.keys() - set(endpoints)]
        await asyncio.gather(*(session.close() for session in closing))
