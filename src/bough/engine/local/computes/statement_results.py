"""Parse and check the rows of statements. The program behind a compute's socket may return anything."""

import math
from collections.abc import Sequence
from typing import Any

from bough.domain.statement_handle import StatementHandle
from bough.engine.local.computes.query_results import (
    parse_bool,
    parse_name,
    parse_number,
    parse_optional_timestamp,
    parse_text,
    parse_timestamp,
)
from bough.engine.port import RunningStatement, StatementCounts, StatementStatistics, StatementText
from bough.postgres import running_statements, statement_statistics

_MAX_WORD_LENGTH = 63  # of a state or a wait event
_MAX_PIDS_LENGTH = 400
_MAX_QUERY_ID = 2**63


def parse_statistics(info: Any, rows: Sequence[Any], limit: int) -> StatementStatistics:
    if len(rows) > limit:
        raise ValueError("more rows than requested")
    since = parse_timestamp(info["stats_reset"])
    return StatementStatistics(
        since=since,
        evictions=parse_number(info["dealloc"]),
        statements=tuple(
            StatementCounts(
                query_id=_parse_query_id(row["queryid"]),
                query=_parse_optional_query(row["text"], parse_number(row["text_bytes"])),
                role=_parse_optional_name(row["role"]),
                database=_parse_optional_name(row["database"]),
                is_top_level=parse_bool(row["toplevel"]),
                calls=parse_number(row["calls"]),
                rows=parse_number(row["rows"]),
                total_ms=_parse_duration(row["total_exec_time"]),
                mean_ms=_parse_duration(row["mean_exec_time"]),
                max_ms=_parse_duration(row["max_exec_time"]),
                shared_blocks_hit=parse_number(row["shared_blks_hit"]),
                shared_blocks_read=parse_number(row["shared_blks_read"]),
                wal_bytes=parse_number(row["wal_bytes"]),
                since=parse_optional_timestamp(row["since"]) or since,
            )
            for row in rows
        ),
    )


def parse_running(rows: Sequence[Any]) -> tuple[RunningStatement, ...]:
    if len(rows) > running_statements.MAX_LISTED:
        raise ValueError("more rows than requested")
    return tuple(
        RunningStatement(
            handle=StatementHandle(
                pid=parse_number(row["pid"]),
                session_began_at=parse_timestamp(row["backend_start"]),
                began_at=parse_timestamp(row["query_start"]),
            ),
            state=parse_text(row["state"], _MAX_WORD_LENGTH),
            query=_parse_query(row["text"], running_statements.MAX_TEXT_BYTES),
            role=_parse_optional_name(row["role"]),
            database=_parse_optional_name(row["database"]),
            application_name=_decode(row["application_name"], _MAX_WORD_LENGTH),
            transaction_began_at=parse_optional_timestamp(row["xact_start"]),
            wait_event_type=_parse_optional_word(row["wait_event_type"]),
            wait_event=_parse_optional_word(row["wait_event"]),
            blocked_by=_parse_pids(row["blocked_by"]),
        )
        for row in rows
    )


def _parse_query_id(value: object) -> int | None:
    if value is not None and (type(value) is not int or not -_MAX_QUERY_ID <= value < _MAX_QUERY_ID):
        raise ValueError("not a query id")
    return value


def _parse_optional_query(value: object, length: int) -> StatementText | None:
    return None if value is None else _parse_query(value, statement_statistics.MAX_TEXT_BYTES, length)


def _parse_query(value: object, max_bytes: int, length: int = 0) -> StatementText:
    """`length` is that of the complete text, if it is known."""
    return StatementText(text=_decode(value, max_bytes), is_truncated=length > max_bytes)


def _decode(value: object, max_bytes: int) -> str:
    """Texts of databases with another encoding may not be UTF-8, and a cut may go through a character."""
    if not isinstance(value, bytes) or len(value) > max_bytes:
        raise ValueError("not the bytes of a text")
    return value.decode(errors="replace")


def _parse_optional_name(value: object) -> str | None:
    return None if value is None else parse_name(value).decode(errors="replace")


def _parse_optional_word(value: object) -> str | None:
    return None if value is None else parse_text(value, _MAX_WORD_LENGTH)


def _parse_duration(value: object) -> float:
    if type(value) is not float or not math.isfinite(value) or value < 0:
        raise ValueError("not a duration")
    return value


def _parse_pids(value: object) -> tuple[int, ...]:
    """The ids are unique. 0 stands for a prepared transaction."""
    return (
        () if value is None else tuple(parse_number(int(each)) for each in parse_text(value, _MAX_PIDS_LENGTH).split())
    )
