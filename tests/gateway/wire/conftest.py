"""A session with a real Postgres that runs texts of any number of statements."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import pq

from support.postgres import PostgresServer


class PgSession:
    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self._pgconn = connection.pgconn

    def run(self, text: bytes) -> list[str]:
        """Run a text; return the command tag of each statement, and the SQLSTATE if it failed."""
        outcomes = []
        self._pgconn.send_query(text)
        while (result := self._pgconn.get_result()) is not None:
            failed = result.status == pq.ExecStatus.FATAL_ERROR
            outcome = result.error_field(pq.DiagnosticField.SQLSTATE) if failed else result.command_status
            outcomes.append((outcome or b"").decode())
        return outcomes

    def run_failing(self, text: bytes) -> tuple[str, str, str]:
        """Run a failing text; return SQLSTATE, message and hint."""
        result = self._pgconn.exec_(text)
        assert result.status == pq.ExecStatus.FATAL_ERROR
        fields = (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY, pq.DiagnosticField.MESSAGE_HINT)
        code, message, hint = ((result.error_field(field) or b"").decode() for field in fields)
        return code, message, hint

    def prepare(self, name: bytes, text: bytes = b"select 1") -> None:
        """Prepare a statement as a driver does, without SQL."""
        assert self._pgconn.prepare(name, text).status == pq.ExecStatus.COMMAND_OK

    def query(self, sql: bytes) -> list[tuple[bytes | None, ...]]:
        result = self._pgconn.exec_(sql)
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        return [tuple(result.get_value(row, n) for n in range(result.nfields)) for row in range(result.ntuples)]


@pytest.fixture(scope="session")
def session_database(postgres_server: PostgresServer) -> Iterator[str]:
    """A database for statements of every kind, which may leave tables and functions behind."""
    address = f"host={postgres_server.folder} user=store"
    while True:
        try:
            connection = psycopg.connect(f"{address} dbname=postgres", autocommit=True)
            break
        except psycopg.OperationalError:  # it is still starting
            time.sleep(0.05)
    with connection:
        connection.execute("create database session_words")
        yield f"{address} dbname=session_words"
        connection.execute("drop database session_words (force)")


@pytest.fixture
def session(session_database: str) -> Iterator[PgSession]:
    with psycopg.connect(session_database, autocommit=True) as connection:
        yield PgSession(connection)
    with psycopg.connect(session_database, autocommit=True) as connection:
        connection.execute("drop schema public cascade; create schema public")
