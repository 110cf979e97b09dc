"""psycopg 3 does what programs do with a database. `URI ADDRESS`; prints one line of JSON."""

import json
import sys
from typing import Any

import psycopg

from journeys.clients.statements import TELL, TEMPORARY
from journeys.clients.verbs_psycopg import CLIENT, Session, cancel, copy, is_bound, recover, stream, value


def main(uri: str, address: str) -> dict[str, Any]:
    def connect() -> Session:
        return psycopg.connect(uri, hostaddr=address, autocommit=True)

    with connect() as one, connect() as other:
        return {
            "client": CLIENT,
            "is_bound": is_bound(uri),
            "prepared": [value(one, "select %s::int * %s::int", n, n, prepare=True) for n in range(1, 11)],
            "statements": value(one, "select count(*) from pg_prepared_statements"),
            **cancel(one, other),
            **copy(one, TEMPORARY),
            "streamed": stream(one),
            "notified": _notify(one, other),
            **recover(one),
        }


def _notify(one: Session, other: Session) -> list[str]:
    one.execute("listen news")
    other.execute(TELL)
    return [note.payload for note in one.notifies(timeout=30, stop_after=2)]


print(json.dumps(main(*sys.argv[1:])))
