"""Runs psycopg 3 at the pooled host with default settings. Usage: `URI ADDRESS`; prints one line of JSON."""

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
    def connect(**options: Any) -> Session:
        return psycopg.connect(uri, hostaddr=address, **options)

    sessions = [connect() for _ in range(CONNECTIONS)]
    with connect(autocommit=True) as session, connect(autocommit=True) as other:
        results = {
            "client": CLIENT,
            "is_bound": is_bound(uri),
            **_use_all(sessions),
            "pipelined": sum(map(_pipeline, (*sessions, session))),
            **cancel(session, other),
            **copy(session, PERMANENT_TABLE),
            "streamed": stream(session),
            **recover(session),
            "listened": _listen(session),
            "temporary": _temporary(session),
            "locked": _lock(session, other),
        }
        session.execute("notify news, 'heard'")
    for each in sessions:
        each.close()
    return results


def _use_all(sessions: list[Session]) -> dict[str, int]:
    """Each session has its own statement under the same name, `_pg3_0`, and its own settings."""

    def work(number: int) -> int:
        session = sessions[number]
        for setting in make_settings(number):
            session.execute(setting)
        session.commit()
        correct = 0
        for n in range(ROUNDS):
            correct += fetch_value(session, f"select %s::int * 1000 + {number}", n) == n * 1000 + number
            session.commit()
        return correct

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        correct = sum(threads.map(work, range(CONNECTIONS)))
    memories, words = [], []
    for session in sessions:
        memories.append(fetch_value(session, SHOW_WORK_MEM))
        words.append(fetch_value(session, SHOW_CUSTOM_SETTING))
        session.commit()
    return count_kept_settings(correct, memories, words)


def _pipeline(session: Session) -> int:
    """Runs a pipeline. No server connection is held after it, although its last message is Flush."""
    with session.pipeline():
        cursors = [session.execute("select %s::int", (n,)) for n in range(10)]
        correct = [cursor.fetchone() == (n,) for n, cursor in enumerate(cursors)]
        session.commit()
    return sum(correct)


def _listen(session: Session) -> list[Any]:
    try:
        session.execute("listen news")
    except psycopg.Error as error:
        return [error.sqlstate, "direct host" in str(error)]
    return [None, False]


def _temporary(session: Session) -> list[Any]:
    outside = get_sqlstate(session, "create temp table staying (n int)")
    with session.transaction():
        session.execute("create temp table passing (n int)")
        session.execute("insert into passing values (1), (2), (3)")
        inside = fetch_value(session, "select count(*) from passing")
    return [outside, inside, get_sqlstate(session, "select * from passing")]


def _lock(session: Session, other: Session) -> list[Any]:
    session_lock = get_sqlstate(session, "select pg_advisory_lock(1)")
    with session.transaction():
        session.execute("select pg_advisory_xact_lock(1)")
        during = fetch_value(other, "select pg_try_advisory_xact_lock(1)")
    return [session_lock, during, fetch_value(other, "select pg_try_advisory_xact_lock(1)")]


print(json.dumps(main(*sys.argv[1:])))
