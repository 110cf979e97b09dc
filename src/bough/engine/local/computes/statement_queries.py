"""What a session of the platform asks about the statements of a compute."""

from dataclasses import dataclass
from typing import Any

import asyncpg

from bough.domain.statement_handle import StatementHandle
from bough.engine.local.computes.compute_connection import ComputeConnection
from bough.engine.local.computes.query_results import parse_bool, parse_number
from bough.engine.local.computes.statement_results import parse_running, parse_statistics
from bough.engine.port import (
    RunningStatement,
    SignalOutcome,
    StatementStatistics,
    StatisticsQuery,
    StatisticsUnavailable,
)
from bough.postgres import running_statements, statement_statistics

_NOT_PRELOADED = (
    "The compute counts no statements, because it was started without the library pg_stat_statements. Add it to "
    "preload_libraries if it is missing there, and restart the endpoint."
)
_NOT_CREATED = (
    "The statistics of this compute cannot be read before the primary of its branch has run with pg_stat_statements. "
    "Start the read-write endpoint of the branch, and try again."
)
# Raised for texts that cannot be converted to UTF-8, because their database has the encoding SQL_ASCII.
_TEXT_ERRORS = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    major: int
    are_texts_readable: bool


async def read_statistics(connection: ComputeConnection, query: StatisticsQuery) -> StatementStatistics:
    state = await _ensure_readable(connection)
    [info] = await connection.fetch(statement_statistics.SELECT_INFO)
    try:
        rows = await _fetch_statistics(connection, query, state.major, with_texts=state.are_texts_readable)
    except _TEXT_ERRORS:
        rows = await _fetch_statistics(connection, query, state.major, with_texts=False)
    return parse_statistics(info, rows, query.limit)


async def reset_statistics(connection: ComputeConnection) -> bool:
    await _ensure_readable(connection)
    await connection.fetch_value(statement_statistics.RESET)
    return True


async def ensure_readable(connection: ComputeConnection) -> bool:
    await _ensure_readable(connection)
    return True


async def list_running(connection: ComputeConnection) -> tuple[RunningStatement, ...]:
    return parse_running(await connection.fetch(running_statements.SELECT_RUNNING))


async def send_signal(connection: ComputeConnection, handle: StatementHandle, *, terminate: bool) -> SignalOutcome:
    rows = await connection.fetch(
        running_statements.build_signal(terminate=terminate), handle.pid, handle.session_began_at, handle.began_at
    )
    if not rows:
        return SignalOutcome.ENDED
    [[is_sent]] = rows
    if is_sent is None:
        return SignalOutcome.NOTHING_RUNS
    return SignalOutcome.SENT if parse_bool(is_sent) else SignalOutcome.ENDED


async def _fetch_statistics(
    connection: ComputeConnection, query: StatisticsQuery, major: int, *, with_texts: bool
) -> list[Any]:
    statement = statement_statistics.build_select(query.order, major)
    return await connection.fetch(statement, with_texts, query.database, query.role, query.limit)


async def _ensure_readable(connection: ComputeConnection) -> _State:
    """Create the extension in the maintenance database if it is missing, as in projects of earlier versions."""
    [row] = await connection.fetch(statement_statistics.SELECT_STATE)
    if not parse_bool(row["is_preloaded"]):
        raise StatisticsUnavailable(_NOT_PRELOADED)
    if not parse_bool(row["is_created"]):
        if parse_bool(row["is_in_recovery"]):
            raise StatisticsUnavailable(_NOT_CREATED, needs_primary=True)
        await connection.execute(*statement_statistics.CREATE)
    return _State(
        major=parse_number(row["version"]) // 10_000,
        are_texts_readable=parse_number(row["text_bytes"]) <= statement_statistics.MAX_TEXT_FILE_BYTES,
    )
