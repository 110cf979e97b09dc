"""Actions of psycopg 3 at the direct and the pooled host."""

import threading
from typing import Any

import psycopg

from journeys.clients.statements import COUNT_SLEEPING, LARGE_RESULT, SLEEP

Session = psycopg.Connection[Any]

_LIBPQ = psycopg.pq.version()
CLIENT = f"psycopg {psycopg.__version__}, libpq {_LIBPQ // 10000}.{_LIBPQ % 10000}"


def is_bound(uri: str) -> bool:
    return "channel_binding=require" in uri  # libpq then refuses connections without channel binding


def fetch_value(session: Session, statement: str, *parameters: Any, **options: Any) -> Any:
    row = session.execute(statement, parameters or None, **options).fetchone()
    assert row is not None
    return row[0]


def get_sqlstate(session: Session, statement: str) -> str | None:
    try:
        session.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def cancel(session: Session, other: Session) -> dict[str, Any]:
    def cancel_sleep() -> None:
        while not fetch_value(other, COUNT_SLEEPING):
            pass
        session.cancel_safe()

    canceller = threading.Thread(target=cancel_sleep)
    canceller.start()
    cancelled = get_sqlstate(session, SLEEP)
    canceller.join()
    return {"cancelled": cancelled, "after_cancel": fetch_value(session, "select 1")}


def copy(session: Session, table: tuple[str, ...]) -> dict[str, Any]:
    for statement in table:
        session.execute(statement)
    with session.cursor().copy("copy copied from stdin") as copy_in:
        for n in range(10_000):
            copy_in.write_row((n, f"word {n}"))
    with session.cursor().copy("copy (select * from copied order by n) to stdout") as copy_out:
        size = sum(len(chunk) for chunk in copy_out)
    return {"copied": fetch_value(session, "select count(*) from copied"), "copied_bytes": size}


def stream(session: Session) -> int:
    with session.cursor() as cursor:
        return sum(len(row[0]) for row in cursor.stream(LARGE_RESULT))


def recover(session: Session) -> dict[str, Any]:
    session.autocommit = False
    states = [get_sqlstate(session, "select 1 / 0"), get_sqlstate(session, "select 1")]
    session.rollback()
    session.autocommit = True
    return {"refused": states, "recovered": fetch_value(session, "select 7")}
