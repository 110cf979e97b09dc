"""A session with a real Postgres, spoken to in texts of any number of statements."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import pq

from support.postgres import PostgresServer


class PgSession:
    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self._inner = connection.pgconn

    def run(self, text: bytes) -> list[str]:
        """The command tags of a text, one a statement, and last the SQLSTATE if it failed."""
        said = []
        self._inner.send_query(text)
        while (result := self._inner.get_result()) is not None:
            failed = result.status == pq.ExecStatus.FATAL_ERROR
            words = result.error_field(pq.DiagnosticField.SQLSTATE) if failed else result.command_status
            said.append((words or b"").decode())
        return said

    def run_failing(self, text: bytes) -> tuple[str, str, str]:
        """SQLSTATE, message and hint."""
        result = self._inner.exec_(text)
        assert result.status == pq.ExecStatus.FATAL_ERROR
        asked = (pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY, pq.DiagnosticField.MESSAGE_HINT)
        code, message, hint = ((result.error_field(field) or b"").decode() for field in asked)
        return code, message, hint

    def prepare(self, name: bytes, text: bytes = b"select 1") -> None:
        """As a driver does, without SQL."""
        assert self._inner.prepare(name, text).status == pq.ExecStatus.COMMAND_OK

    def query(self, question: bytes) -> list[tuple[bytes | None, ...]]:
        result = self._inner.exec_(question)
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        return [tuple(result.get_value(row, n) for n in range(result.nfields)) for row in range(result.ntuples)]


@pytest.fixture(scope="session")
def session_database(postgres_server: PostgresServer) -> Iterator[str]:
    """For statements of every kind, which may leave tables and functions behind."""
    address = f"host={postgres_server.folder} user=store"
    while True:
        try:
            opened = psycopg.connect(f"{address} dbname=postgres", autocommit=True)
            break
        except psycopg.OperationalError:  # it is still starting
            time.sleep(0.05)
    with opened:
        opened.execute("create database session_words")
        yield f"{address} dbname=session_words"
        opened.execute("drop database session_words (force)")


@pytest.fixture
def session(session_database: str) -> Iterator[PgSession]:
    with psycopg.connect(session_database, autocommit=True) as opened:
        yield PgSession(opened)
    with psycopg.connect(session_database, autocommit=True) as opened:
        opened.execute("drop schema public cascade; create schema public")
