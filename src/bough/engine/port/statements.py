"""The port to the statements of running computes: their statistics, those that run now, and how to cancel them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from bough.domain.statement_handle import StatementHandle
from bough.engine.port.errors import EngineError
from bough.errors import ErrorKind
from bough.ids import EndpointId
from bough.postgres.statement_statistics import StatisticsOrder


class StatisticsUnavailable(EngineError):
    """The compute counts no statements, or nothing can be read from it yet."""

    kind = ErrorKind.PRECONDITION

    def __init__(self, public: str, *, needs_primary: bool = False) -> None:
        super().__init__(public, transient=False)
        self.needs_primary = needs_primary  # `ensure_statistics_readable` on the primary of the replica solves it


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsQuery:
    limit: int
    order: StatisticsOrder = StatisticsOrder.TOTAL_TIME
    database: str | None = None  # None: of all
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementText:
    text: str
    is_truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCounts:
    """What the server counted for one normalized statement of a role in a database. Times are in milliseconds."""

    query_id: int | None
    query: StatementText | None  # None: the server does not have the text
    role: str | None  # None: it was deleted
    database: str | None  # None: it was deleted
    is_top_level: bool  # otherwise a function ran it
    calls: int
    rows: int
    total_ms: float
    mean_ms: float
    max_ms: float
    shared_blocks_hit: int
    shared_blocks_read: int
    wal_bytes: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementStatistics:
    since: datetime  # the last reset of all statistics
    evictions: int  # how often the least used statements were dropped to make room
    statements: tuple[StatementCounts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStatement:
    handle: StatementHandle
    state: str  # as in pg_stat_activity
    query: StatementText
    role: str | None
    database: str | None
    application_name: str
    transaction_began_at: datetime | None
    wait_event_type: str | None
    wait_event: str | None
    blocked_by: tuple[int, ...]  # process ids that hold the lock it waits for, or wait for it in front


class SignalOutcome(StrEnum):
    SENT = "sent"
    NOTHING_RUNS = "nothing runs"  # the session has only a transaction open
    ENDED = "ended"  # the statement of the handle does not run any more


class StatementEngine(Protocol):
    """Read and cancel the statements of running computes. For a compute that does not run, all return None."""

    async def read_statement_statistics(
        self, endpoint: EndpointId, query: StatisticsQuery
    ) -> StatementStatistics | None:
        """Return the statements with the largest counts. Raise StatisticsUnavailable if there are none to read."""

    async def ensure_statistics_readable(self, endpoint: EndpointId) -> bool | None:
        """Create what reading needs in the database of a primary; its replicas get it by WAL."""

    async def reset_statement_statistics(self, endpoint: EndpointId) -> bool | None:
        """Delete all statistics of statements."""

    async def list_running_statements(self, endpoint: EndpointId) -> tuple[RunningStatement, ...] | None:
        """Return the statements of clients, and open transactions of clients, the longest-running first."""

    async def signal_statement(
        self, endpoint: EndpointId, handle: StatementHandle, *, terminate: bool = False
    ) -> SignalOutcome | None:
        """Cancel exactly this statement, or end its session."""
