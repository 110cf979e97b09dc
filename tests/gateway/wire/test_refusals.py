"""Refusals make Postgres fail, and say why in our words."""

import pytest

from bough.gateway.wire import messages, refusals
from bough.gateway.wire.refusals import Refusal
from gateway.wire.conftest import Session

ALL = [
    refusals.LISTENING,
    refusals.TEMPORARY,
    refusals.PREPARING,
    refusals.HOLDING,
    *refusals.LOCKING.values(),
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


@pytest.mark.parametrize("refusal", ALL)
@pytest.mark.parametrize("before", SESSIONS)
def test_postgres_cannot_parse_it_whatever_is_set(session: Session, refusal: Refusal, before: str) -> None:
    session.runs(before.encode())
    code, message, _ = session.fails(refusal.text())
    assert code == refusals.SYNTAX_ERROR
    assert refusals.NEAR.decode() in message


def test_an_open_transaction_is_aborted(session: Session) -> None:
    assert session.runs(b"begin") == ["BEGIN"]
    assert session.runs(refusals.LISTENING.text()) == [refusals.SYNTAX_ERROR]
    assert session.runs(b"select 1") == ["25P02"]
    assert session.runs(b"rollback") == ["ROLLBACK"]
    assert session.runs(b"select 1") == ["SELECT 1"]


@pytest.mark.parametrize("refusal", ALL)
def test_the_client_reads_our_words(refusal: Refusal) -> None:
    told = messages.trouble(refusal.error()[5:])
    assert (told.severity, told.code, told.message, told.hint) == ("ERROR", "0A000", refusal.message, refusal.hint)


@pytest.mark.parametrize("refusal", ALL)
def test_the_words_say_what_to_do(refusal: Refusal) -> None:
    assert "pooled host" in refusal.message
    assert "the direct host: the same one without -pooler" in refusal.hint
    assert (refusal.message + refusal.hint).isascii()  # clients may speak any encoding


def test_locks_name_what_works_instead() -> None:
    hints = {function: refusal.hint.split()[1] for function, refusal in refusals.LOCKING.items()}
    assert hints == {
        "pg_advisory_lock": "pg_advisory_xact_lock",
        "pg_advisory_lock_shared": "pg_advisory_xact_lock_shared",
        "pg_try_advisory_lock": "pg_try_advisory_xact_lock",
        "pg_try_advisory_lock_shared": "pg_try_advisory_xact_lock_shared",
    }
