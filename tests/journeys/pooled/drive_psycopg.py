"""psycopg 3 at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

Session = psycopg.Connection[Any]

CROWD, ROUNDS = 8, 25
SLEEPS = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and wait_event = 'PgSleep'"


def main(uri: str, address: str) -> dict[str, Any]:
    def connect(**more: Any) -> Session:
        return psycopg.connect(uri, hostaddr=address, **more)

    version = psycopg.pq.version()
    seen: dict[str, Any] = {
        "client": f"psycopg {psycopg.__version__}, libpq {version // 10000}.{version % 10000}",
        "is_bound": "channel_binding=require" in uri,  # libpq refuses what is not
    }
    crowd = [connect() for _ in range(CROWD)]
    with connect(autocommit=True) as one, connect(autocommit=True) as other:
        seen |= _crowd(crowd)
        seen["pipelined"] = sum(map(_pipeline, (*crowd, one)))
        seen |= _cancel(one, other)
        seen |= _copy(one)
        seen["streamed"] = _stream(one)
        seen |= _recover(one)
        seen["listened"] = _listen(one)
        one.execute("notify news, 'heard'")
        seen["temporary"] = _temporary(one)
        seen["locked"] = _lock(one, other)
    for session in crowd:
        session.close()
    return seen


def _value(one: Session, statement: str, *given: Any) -> Any:
    row = one.execute(statement, given or None).fetchone()
    assert row is not None
    return row[0]


def _state(one: Session, statement: str) -> str | None:
    try:
        one.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def _crowd(crowd: list[Session]) -> dict[str, int]:
    """Each has another statement under the same name, `_pg3_0`, and settings of its own."""

    def work(number: int) -> int:
        session = crowd[number]
        session.execute(f"set work_mem = '{1000 + number}kB'")
        session.execute(f"set my.word = 'word {number}'")
        session.commit()
        right = 0
        for n in range(ROUNDS):
            right += _value(session, f"select %s::int * 1000 + {number}", n) == n * 1000 + number
            session.commit()
        return right

    with ThreadPoolExecutor(CROWD) as threads:
        right = sum(threads.map(work, range(CROWD)))
    kept, words = [], []
    for session in crowd:
        kept.append(_value(session, "show work_mem"))
        words.append(_value(session, "select current_setting('my.word', true)"))
        session.commit()
    return {
        "right": right,
        "kept": sum(value == f"{1000 + number}kB" for number, value in enumerate(kept)),
        "words": sum(value == f"word {number}" for number, value in enumerate(words)),
    }


def _pipeline(session: Session) -> int:
    """Nothing is held afterwards, though the last that it says is to flush."""
    with session.pipeline():
        cursors = [session.execute("select %s::int", (n,)) for n in range(10)]
        right = [cursor.fetchone() == (n,) for n, cursor in enumerate(cursors)]
        session.commit()
    return sum(right)


def _cancel(one: Session, other: Session) -> dict[str, Any]:
    def cancel() -> None:
        while not _value(other, SLEEPS):
            pass
        one.cancel_safe()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    state = _state(one, "select pg_sleep(60)")
    canceller.join()
    return {"cancelled": state, "after_cancel": _value(one, "select 1")}


def _copy(one: Session) -> dict[str, Any]:
    one.execute("drop table if exists copied")
    one.execute("create table copied (n int, word text)")
    with one.cursor().copy("copy copied from stdin") as into:
        for n in range(10_000):
            into.write_row((n, f"word {n}"))
    with one.cursor().copy("copy (select * from copied order by n) to stdout") as out:
        size = sum(len(piece) for piece in out)
    return {"copied": _value(one, "select count(*) from copied"), "copied_bytes": size}


def _stream(one: Session) -> int:
    with one.cursor() as cursor:
        rows = cursor.stream("select repeat('x', 10240) from generate_series(1, 10240)")
        return sum(len(row[0]) for row in rows)


def _recover(one: Session) -> dict[str, Any]:
    one.autocommit = False
    states = [_state(one, "select 1 / 0"), _state(one, "select 1")]
    one.rollback()
    one.autocommit = True
    return {"refused": states, "recovered": _value(one, "select 7")}


def _listen(one: Session) -> list[Any]:
    try:
        one.execute("listen news")
    except psycopg.Error as error:
        return [error.sqlstate, "direct host" in str(error)]
    return [None, False]


def _temporary(one: Session) -> list[Any]:
    outside = _state(one, "create temp table staying (n int)")
    with one.transaction():
        one.execute("create temp table passing (n int)")
        one.execute("insert into passing values (1), (2), (3)")
        inside = _value(one, "select count(*) from passing")
    return [outside, inside, _state(one, "select * from passing")]


def _lock(one: Session, other: Session) -> list[Any]:
    session_lock = _state(one, "select pg_advisory_lock(1)")
    with one.transaction():
        one.execute("select pg_advisory_xact_lock(1)")
        meanwhile = _value(other, "select pg_try_advisory_xact_lock(1)")
    return [session_lock, meanwhile, _value(other, "select pg_try_advisory_xact_lock(1)")]


print(json.dumps(main(*sys.argv[1:])))
