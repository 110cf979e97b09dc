"""Rejections make Postgres fail, and the client gets the gateway's error."""

import pytest

from bough.gateway.wire import messages, rejections
from bough.gateway.wire.rejections import StatementRejection
from gateway.wire.conftest import PgSession

ALL = [
    rejections.LISTEN,
    rejections.TEMPORARY_OBJECT,
    rejections.SQL_PREPARE,
    rejections.CURSOR_WITH_HOLD,
    *rejections.SESSION_LOCKS.values(),
]
SESSIONS = [
    "select 1",
    "set standard_conforming_strings = off; set escape_string_warning = off",
    "set search_path = ''",
    "set search_path = pg_temp; create function pg_temp.format(text) returns text language sql as 'select null'",
    "set client_encoding = 'LATIN1'",
    "set plpgsql.extra_errors = 'all'",
    "set default_transaction_read_only = on",
]


@pytest.mark.parametrize("rejection", ALL)
@pytest.mark.parametrize("before", SESSIONS)
def test_postgres_cannot_parse_it_whatever_is_set(
    session: PgSession, rejection: StatementRejection, before: str
) -> None:
    session.run(before.encode())
    code, message, _ = session.run_failing(rejection.failing_sql())
    assert code == rejections.SYNTAX_ERROR
    assert rejections.SYNTAX_ERROR_TOKEN.decode() in message


def test_an_open_transaction_is_aborted(session: PgSession) -> None:
    assert session.run(b"begin") == ["BEGIN"]
    assert session.run(rejections.LISTEN.failing_sql()) == [rejections.SYNTAX_ERROR]
    assert session.run(b"select 1") == ["25P02"]
    assert session.run(b"rollback") == ["ROLLBACK"]
    assert session.run(b"select 1") == ["SELECT 1"]


@pytest.mark.parametrize("rejection", ALL)
def test_the_client_reads_our_words(rejection: StatementRejection) -> None:
    reported = messages.parse_error_response(rejection.encode_error()[5:])
    assert (reported.severity, reported.sqlstate, reported.message, reported.hint) == (
        "ERROR",
        "0A000",
        rejection.message,
        rejection.hint,
    )


@pytest.mark.parametrize("rejection", ALL)
def test_the_words_say_what_to_do(rejection: StatementRejection) -> None:
    assert "pooled host" in rejection.message
    assert "the direct host: the same name without -pooler" in rejection.hint
    assert (rejection.message + rejection.hint).isascii()  # clients may use any encoding


def test_locks_name_what_works_instead() -> None:
    hints = {function: rejection.hint.split()[1] for function, rejection in rejections.SESSION_LOCKS.items()}
    assert hints == {
        "pg_advisory_lock": "pg_advisory_xact_lock",
        "pg_advisory_lock_shared": "pg_advisory_xact_lock_shared",
        "pg_try_advisory_lock": "pg_try_advisory_xact_lock",
        "pg_try_advisory_lock_shared": "pg_try_advisory_xact_lock_shared",
    }
