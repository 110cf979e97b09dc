"""psycopg 3 at the pooled host, with its defaults. `URI ADDRESS`; prints one line of JSON."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from journeys.clients.statements import LASTING
from journeys.clients.verbs_psycopg import CLIENT, Session, cancel, copy, is_bound, recover, state, stream, value
from journeys.pooled.crowd import CROWD, MEMORY, ROUNDS, WORD, counted, settings_of


def main(uri: str, address: str) -> dict[str, Any]:
    def connect(**more: Any) -> Session:
        return psycopg.connect(uri, hostaddr=address, **more)

    crowd = [connect() for _ in range(CROWD)]
    with connect(autocommit=True) as one, connect(autocommit=True) as other:
        seen = {
            "client": CLIENT,
            "is_bound": is_bound(uri),
            **_crowd(crowd),
            "pipelined": sum(map(_pipeline, (*crowd, one))),
            **cancel(one, other),
            **copy(one, LASTING),
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
        for setting in settings_of(number):
            session.execute(setting)
        session.commit()
        right = 0
        for n in range(ROUNDS):
            right += value(session, f"select %s::int * 1000 + {number}", n) == n * 1000 + number
            session.commit()
        return right

    with ThreadPoolExecutor(CROWD) as threads:
        right = sum(threads.map(work, range(CROWD)))
    memories, words = [], []
    for session in crowd:
        memories.append(value(session, MEMORY))
        words.append(value(session, WORD))
        session.commit()
    return counted(right, memories, words)


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
    outside = state(one, "create temp table staying (n int)")
    with one.transaction():
        one.execute("create temp table passing (n int)")
        one.execute("insert into passing values (1), (2), (3)")
        inside = value(one, "select count(*) from passing")
    return [outside, inside, state(one, "select * from passing")]


def _lock(one: Session, other: Session) -> list[Any]:
    session_lock = state(one, "select pg_advisory_lock(1)")
    with one.transaction():
        one.execute("select pg_advisory_xact_lock(1)")
        meanwhile = value(other, "select pg_try_advisory_xact_lock(1)")
    return [session_lock, meanwhile, value(other, "select pg_try_advisory_xact_lock(1)")]


print(json.dumps(main(*sys.argv[1:])))
