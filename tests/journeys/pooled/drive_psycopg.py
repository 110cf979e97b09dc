"""psycopg 3 at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from journeys.clients.psycopg_actions import (
    CLIENT,
    Session,
    cancel,
    copy,
    fetch_value,
    get_sqlstate,
    is_bound,
    recover,
    stream,
)
from journeys.clients.statements import PERMANENT_TABLE
from journeys.pooled.connection_settings import (
    CONNECTIONS,
    ROUNDS,
    SHOW_CUSTOM_SETTING,
    SHOW_WORK_MEM,
    count_kept_settings,
    make_settings,
)


def main(uri: str, address: str) -> dict[str, Any]:
    def connect(**more: Any) -> Session:
        return psycopg.connect(uri, hostaddr=address, **more)

    crowd = [connect() for _ in range(CONNECTIONS)]
    with connect(autocommit=True) as one, connect(autocommit=True) as other:
        seen = {
            "client": CLIENT,
            "is_bound": is_bound(uri),
            **_crowd(crowd),
            "pipelined": sum(map(_pipeline, (*crowd, one))),
            **cancel(one, other),
            **copy(one, PERMANENT_TABLE),
            "streamed": stream(one),
            **recover(one),
            "listened": _listen(one),
            "temporary": _temporary(one),
            "locked": _lock(one, other),
        }
        one.execute("notify news, 'heard'")
    for session in crowd:
        session.close()
    return seen


def _crowd(crowd: list[Session]) -> dict[str, int]:
    """Each has another statement under the same name, `_pg3_0`, and settings of its own."""

    def work(number: int) -> int:
        session = crowd[number]
        for setting in make_settings(number):
            session.execute(setting)
        session.commit()
        right = 0
        for n in range(ROUNDS):
            right += fetch_value(session, f"select %s::int * 1000 + {number}", n) == n * 1000 + number
            session.commit()
        return right

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        right = sum(threads.map(work, range(CONNECTIONS)))
    memories, words = [], []
    for session in crowd:
        memories.append(fetch_value(session, SHOW_WORK_MEM))
        words.append(fetch_value(session, SHOW_CUSTOM_SETTING))
        session.commit()
    return count_kept_settings(right, memories, words)


def _pipeline(session: Session) -> int:
    """Nothing is held afterwards, though the last that it says is to flush."""
    with session.pipeline():
        cursors = [session.execute("select %s::int", (n,)) for n in range(10)]
        right = [cursor.fetchone() == (n,) for n, cursor in enumerate(cursors)]
        session.commit()
    return sum(right)


def _listen(one: Session) -> list[Any]:
    try:
        one.execute("listen news")
    except psycopg.Error as error:
        return [error.sqlstate, "direct host" in str(error)]
    return [None, False]


def _temporary(one: Session) -> list[Any]:
    outside = get_sqlstate(one, "create temp table staying (n int)")
    with one.transaction():
        one.execute("create temp table passing (n int)")
        one.execute("insert into passing values (1), (2), (3)")
        inside = fetch_value(one, "select count(*) from passing")
    return [outside, inside, get_sqlstate(one, "select * from passing")]


def _lock(one: Session, other: Session) -> list[Any]:
    session_lock = get_sqlstate(one, "select pg_advisory_lock(1)")
    with one.transaction():
        one.execute("select pg_advisory_xact_lock(1)")
        meanwhile = fetch_value(other, "select pg_try_advisory_xact_lock(1)")
    return [session_lock, meanwhile, fetch_value(other, "select pg_try_advisory_xact_lock(1)")]


print(json.dumps(main(*sys.argv[1:])))
