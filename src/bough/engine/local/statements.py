"""Reads and cancels the statements of the computes on this machine."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from bough.domain.statement_handle import StatementHandle
from bough.engine.local.computes import session, statement_queries
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.session import ComputeSession
from bough.engine.port import RunningStatement, SignalOutcome, StatementStatistics, StatisticsQuery
from bough.errors import Busy
from bough.ids import EndpointId

_MAX_SESSIONS = 2  # of one compute at a time, which may hold each of them up until it times out

T = TypeVar("T")


class LocalStatements:
    """Implements StatementEngine."""

    def __init__(self, running: RunningComputes) -> None:
        self._running = running
        self._sessions: Counter[EndpointId] = Counter()

    async def read_statement_statistics(
        self, endpoint: EndpointId, query: StatisticsQuery
    ) -> StatementStatistics | None:
        return await self._ask(endpoint, partial(statement_queries.read_statistics, query=query))

    async def ensure_statistics_readable(self, endpoint: EndpointId) -> bool | None:
        return await self._ask(endpoint, statement_queries.ensure_readable)

    async def reset_statement_statistics(self, endpoint: EndpointId) -> bool | None:
        return await self._ask(endpoint, statement_queries.reset_statistics)

    async def list_running_statements(self, endpoint: EndpointId) -> tuple[RunningStatement, ...] | None:
        return await self._ask(endpoint, statement_queries.list_running)

    async def signal_statement(
        self, endpoint: EndpointId, handle: StatementHandle, *, terminate: bool = False
    ) -> SignalOutcome | None:
        return await self._ask(endpoint, partial(statement_queries.send_signal, handle=handle, terminate=terminate))

    async def _ask(self, endpoint: EndpointId, ask: Callable[[ComputeSession], Awaitable[T]]) -> T | None:
        """Return None when the compute does not run."""
        sockets = await self._running.find_sockets(endpoint)
        if sockets is None:
            return None
        async with self._open_session(endpoint, sockets) as opened:
            return await ask(opened)

    @asynccontextmanager
    async def _open_session(self, endpoint: EndpointId, sockets: Path) -> AsyncIterator[ComputeSession]:
        if self._sessions[endpoint] >= _MAX_SESSIONS:
            raise Busy("Other requests read the statements of this endpoint. Try again.")
        self._sessions[endpoint] += 1
        try:
            async with session.open_session(sockets, limits=session.INSPECTION_LIMITS) as opened:
                yield opened
        finally:
            self._sessions[endpoint] -= 1
            if not self._sessions[endpoint]:
                del self._sessions[endpoint]
