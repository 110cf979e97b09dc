"""Runs typical actions with psycopg 3. Usage: `URI ADDRESS`; prints one line of JSON."""

import json
import sys
from typing import Any

import psycopg

from journeys.clients.psycopg_actions import CLIENT, Session, cancel, copy, fetch_value, is_bound, recover, stream
from journeys.clients.statements import NOTIFY, TEMPORARY_TABLE


def main(uri: str, address: str) -> dict[str, Any]:
    def connect() -> Session:
        return psycopg.connect(uri, hostaddr=address, autocommit=True)

    with connect() as session, connect() as other:
        return {
            "client": CLIENT,
            "is_bound": is_bound(uri),
            "prepared": [fetch_value(session, "select %s::int * %s::int", n, n, prepare=True) for n in range(1, 11)],
            "statements": fetch_value(session, "select count(*) from pg_prepared_statements"),
            **cancel(session, other),
            **copy(session, TEMPORARY_TABLE),
            "streamed": stream(session),
            "notified": _notify(session, other),
            **recover(session),
        }


def _notify(session: Session, other: Session) -> list[str]:
    session.execute("listen news")
    other.execute(NOTIFY)
    return [notification.payload for notification in session.notifies(timeout=30, stop_after=2)]


print(json.dumps(main(*sys.argv[1:])))
