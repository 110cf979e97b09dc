"""psycopg 3 does what programs do with a database. `URI [ADDRESS]`; prints one line of JSON."""

import json
import sys
import threading
from typing import Any, LiteralString

import psycopg

SLEEPS = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'"


def main(uri: str, address: str = "") -> dict[str, Any]:
    def connect(**more: Any) -> "psycopg.Connection[Any]":
        return psycopg.connect(uri, hostaddr=address or None, autocommit=True, **more)

    version = psycopg.pq.version()
    seen: dict[str, Any] = {"client": f"psycopg {psycopg.__version__}, libpq {version // 10000}.{version % 10000}"}
    with connect() as one, connect() as other:
        seen["is_bound"] = "channel_binding=require" in uri  # libpq refuses what is not
        seen["prepared"] = [_value(one, "select %s::int * %s::int", n, n, prepare=True) for n in range(1, 11)]
        seen["statements"] = _value(one, "select count(*) from pg_prepared_statements")
        seen |= _cancel(one, other)
        seen |= _copy(one)
        seen["streamed"] = _stream(one)
        seen["notified"] = _notify(one, other)
        seen |= _recover(one)
    return seen


def _value(one: "psycopg.Connection[Any]", statement: LiteralString, *given: Any, **how: Any) -> Any:
    row = one.execute(statement, given or None, **how).fetchone()
    assert row is not None
    return row[0]


def _cancel(one: "psycopg.Connection[Any]", other: "psycopg.Connection[Any]") -> dict[str, Any]:
    def cancel() -> None:
        while not _value(other, SLEEPS):
            pass
        one.cancel_safe()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        one.execute("select pg_sleep(60)")
        state = None
    except psycopg.Error as error:
        state = error.sqlstate
    canceller.join()
    return {"cancelled": state, "after_cancel": _value(one, "select 1")}


def _copy(one: "psycopg.Connection[Any]") -> dict[str, Any]:
    one.execute("create temp table copied (n int, word text)")
    with one.cursor().copy("copy copied from stdin") as into:
        for n in range(10_000):
            into.write_row((n, f"word {n}"))
    with one.cursor().copy("copy (select * from copied order by n) to stdout") as out:
        size = sum(len(piece) for piece in out)
    return {"copied": _value(one, "select count(*) from copied"), "copied_bytes": size}


def _stream(one: "psycopg.Connection[Any]") -> int:
    with one.cursor() as cursor:
        rows = cursor.stream("select repeat('x', 10240) from generate_series(1, 10240)")
        return sum(len(row[0]) for row in rows)


def _notify(one: "psycopg.Connection[Any]", other: "psycopg.Connection[Any]") -> list[str]:
    one.execute("listen news")
    other.execute("select pg_notify('news', word) from unnest(array['one', 'two']) word")
    return [note.payload for note in one.notifies(timeout=30, stop_after=2)]


def _recover(one: "psycopg.Connection[Any]") -> dict[str, Any]:
    states: list[str | None] = []
    one.autocommit = False
    for statement in ("select 1 / 0", "select 1"):
        try:
            one.execute(statement)
        except psycopg.Error as error:
            states.append(error.sqlstate)
    one.rollback()
    return {"refused": states, "recovered": _value(one, "select 7")}


print(json.dumps(main(*sys.argv[1:])))
