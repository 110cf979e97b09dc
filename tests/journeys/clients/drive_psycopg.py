"""psycopg 3 does what programs do with a database. `URI ADDRESS`; prints one line of JSON."""

import json
import sys
from typing import Any

import psycopg

from journeys.clients.psycopg_actions import CLIENT, Session, cancel, copy, fetch_value, is_bound, recover, stream
from journeys.clients.statements import NOTIFY, TEMPORARY_TABLE


def main(uri: str, address: str) -> dict[str, Any]:
    def connect() -> Session:
        return psycopg.connect(uri, hostaddr=address, autocommit=True)

    with connect() as one, connect() as other:
        return {
            "client": CLIENT,
            "is_bound": is_bound(uri),
            "prepared": [fetch_value(one, "select %s::int * %s::int", n, n, prepare=True) for n in range(1, 11)],
            "statements": fetch_value(one, "select count(*) from pg_prepared_statements"),
            **cancel(one, other),
            **copy(one, TEMPORARY_TABLE),
            "streamed": stream(one),
            "notified": _notify(one, other),
            **recover(one),
        }


def _notify(one: Session, other: Session) -> list[str]:
    one.execute("listen news")
    other.execute(NOTIFY)
    return [note.payload for note in one.notifies(timeout=30, stop_after=2)]


print(json.dumps(main(*sys.argv[1:])))
