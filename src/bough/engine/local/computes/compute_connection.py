"""Connections of the platform to a compute, as the superuser over the Unix socket.

Every name in the statements is schema-qualified and the search path is `pg_catalog`, so that no object of a tenant
can shadow a catalog object. Statements are neither logged nor counted, because some contain password verifiers.

The process behind the socket may not be Postgres. Therefore the size of its responses and the time it is given are
limited, and every value is checked (see `query_results`).
"""

import asyncio
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import asyncpg

from bough import log
from bough.engine.local.computes.limited_connection import (
    DRIVER_ERRORS,
    LimitedEventLoop,
    LimitedProtocol,
    await_driver,
)
from bough.engine.local.computes.message_headers import ResponseLimits
from bough.engine.port import EngineError
from bough.postgres import ADMIN_ROLE

MAX_SHOWN = 1000  # characters of a server's text that an error message quotes
_NOT_POSTGRES = "The process that listens on the compute's socket does not follow the Postgres protocol"
_TRANSIENT_CLASSES = ("08", "40", "53", "55", "57")  # SQLSTATE: connection, rollback, resources, locks, operator

# What parsing raises when a response does not have the expected shape.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
SESSION_ERRORS = (*DRIVER_ERRORS, *_MALFORMED)

logger = log.get_logger(component="engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Bounds on the time and the memory that a session may cost the platform."""

    connect_timeout: float  # seconds
    statement_timeout: float  # seconds
    total_timeout: float | None  # seconds from connecting to closing
    lock_timeout: str  # how long a statement waits for a lock, in Postgres notation
    response: ResponseLimits  # per statement


CHANGE_LIMITS = SessionLimits(
    connect_timeout=10.0,
    statement_timeout=60.0,
    total_timeout=None,
    lock_timeout="10s",
    response=ResponseLimits(16 * 1024**2, 200_000),
)
# Inspections are repeated anyway, so they do not wait for an unresponsive compute.
INSPECTION_LIMITS = SessionLimits(
    connect_timeout=3.0,
    statement_timeout=5.0,
    total_timeout=8.0,
    lock_timeout="1s",
    response=ResponseLimits(4 * 1024**2, 20_000),
)
# Postgres measures the size of a database file by file.
MEASUREMENT_LIMITS = SessionLimits(
    connect_timeout=3.0,
    statement_timeout=30.0,
    total_timeout=35.0,
    lock_timeout="1s",
    response=INSPECTION_LIMITS.response,
)

_SETTINGS = {
    "application_name": "bough",
    "search_path": "pg_catalog, pg_temp",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # The planner has few statistics about the catalogs and functions these queries read, and overestimates their cost.
    "max_parallel_workers_per_gather": "0",
    # The owner of a database can set these two for every session in it.
    "role": "none",
    "local_preload_libraries": "",
    "pg_stat_statements.track": "none",
    "pgaudit.log": "none",
}

# Earlier versions reject a connection that sets them. Tenants cannot create event triggers, but a superuser's may call
# functions that a tenant can replace, even at the login.
_SETTINGS_SINCE_17 = {"transaction_timeout": "0", "event_triggers": "off"}


class ComputeConnection:
    def __init__(self, connection: Any, protocol: LimitedProtocol, statement_timeout: float) -> None:
        self._connection = connection
        self._protocol = protocol
        self._statement_timeout = statement_timeout  # seconds

    async def execute(self, *statements: str) -> None:
        """Execute all statements in one transaction."""
        await self._execute_statement(";\n".join(statements))

    async def fetch(self, query: str, *args: object) -> list[Any]:
        rows: list[Any] = await self._await_reply(self._connection.fetch(query, *args))
        return rows

    async def fetch_value(self, query: str, *args: object) -> object:
        [row] = await self.fetch(query, *args)
        value: object = row[0]
        return value

    async def _execute_statement(self, statement: str, *args: object) -> None:
        await self._await_reply(self._connection.execute(statement, *args))

    async def _await_reply(self, call: Coroutine[Any, Any, Any]) -> Any:
        self._protocol.reset_counters()
        async with asyncio.timeout(self._statement_timeout):
            return await await_driver(call)


async def connect(loop: LimitedEventLoop, sockets: Path, database: str, major: int, limits: SessionLimits) -> Any:
    settings = {**_SETTINGS, **(_SETTINGS_SINCE_17 if major >= 17 else {}), "lock_timeout": limits.lock_timeout}
    if limits.total_timeout is not None:
        # The server, too, stops working on a statement that the platform has given up on.
        settings["statement_timeout"] = f"{limits.statement_timeout:.0f}s"
    call = asyncpg.connect(
        host=str(sockets),
        port=5432,
        user=ADMIN_ROLE,
        database=database,
        password="",  # the server asks for none; without this the driver searches for a password file
        ssl=False,
        timeout=limits.connect_timeout,
        command_timeout=limits.statement_timeout,
        server_settings=settings,
        loop=cast(asyncio.AbstractEventLoop, loop),
    )
    return await await_driver(call)


def convert_error(error: Exception, protocol: LimitedProtocol | None) -> EngineError:
    """Convert one of SESSION_ERRORS to an EngineError."""
    if not isinstance(error, DRIVER_ERRORS):
        [*_, frame] = traceback.extract_tb(error.__traceback__)
        logger.warning("response_malformed", error=repr(error)[:MAX_SHOWN], place=f"{frame.name}:{frame.lineno}")
        return EngineError(f"{_NOT_POSTGRES}.", transient=False)
    if protocol is not None and protocol.violation is not None:
        return EngineError(f"{_NOT_POSTGRES}: {protocol.violation}. Suspend the endpoint.", transient=False)
    if isinstance(error, asyncpg.PostgresError) and not _is_transient(error):
        return EngineError(f"Postgres reported an error: {_first_line(error)}.", transient=False)
    return EngineError(f"The compute did not execute a statement: {_first_line(error)}.")


def _is_transient(error: asyncpg.PostgresError) -> bool:
    return (error.sqlstate or "")[:2] in _TRANSIENT_CLASSES and not isinstance(error, asyncpg.DiskFullError)


def _first_line(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:MAX_SHOWN].rstrip(".")
