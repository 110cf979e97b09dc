"""What psycopg 3 does at either host."""

import threading
from typing import Any

import psycopg

from journeys.clients.statements import COUNT_SLEEPING, LARGE_RESULT, SLEEP

Session = psycopg.Connection[Any]

_LIBPQ = psycopg.pq.version()
CLIENT = f"psycopg {psycopg.__version__}, libpq {_LIBPQ // 10000}.{_LIBPQ % 10000}"


def is_bound(uri: str) -> bool:
    return "channel_binding=require" in uri  # libpq refuses what is not


def fetch_value(one: Session, statement: str, *given: Any, **how: Any) -> Any:
    row = one.execute(statement, given or None, **how).fetchone()
    assert row is not None
    return row[0]


def get_sqlstate(one: Session, statement: str) -> str | None:
    try:
        one.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def cancel(one: Session, other: Session) -> dict[str, Any]:
    def cancel_sleep() -> None:
        while not fetch_value(other, COUNT_SLEEPING):
            pass
        one.cancel_safe()

    canceller = threading.Thread(target=cancel_sleep)
    canceller.start()
    cancelled = get_sqlstate(one, SLEEP)
    canceller.join()
    return {"cancelled": cancelled, "after_cancel": fetch_value(one, "select 1")}


def copy(one: Session, table: tuple[str, ...]) -> dict[str, Any]:
    for statement in table:
        one.execute(statement)
    with one.cursor().copy("copy copied from stdin") as into:
        for n in range(10_000):
            into.write_row((n, f"word {n}"))
    with one.cursor().copy("copy (select * from copied order by n) to stdout") as out:
        size = sum(len(piece) for piece in out)
    return {"copied": fetch_value(one, "select count(*) from copied"), "copied_bytes": size}


def stream(one: Session) -> int:
    with one.cursor() as cursor:
        return sum(len(row[0]) for row in cursor.stream(LARGE_RESULT))


def recover(one: Session) -> dict[str, Any]:
    one.autocommit = False
    states = [get_sqlstate(one, "select 1 / 0"), get_sqlstate(one, "select 1")]
    one.rollback()
    one.autocommit = True
    return {"refused": states, "recovered": fetch_value(one, "select 7")}
