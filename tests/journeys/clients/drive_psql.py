"""Runs typical actions with psql. Usage: `URI ADDRESS`; prints one line of JSON."""

import json
import re
import sys
from typing import Any

from journeys.clients.psql_actions import VERSION, Psql, cancel, copy, open_psql, recover, stream, wait_for_line
from journeys.clients.statements import NOTIFY, TEMPORARY_TABLE


def main(uri: str, address: str) -> dict[str, Any]:
    with open_psql(uri, address) as psql:
        return {
            "client": f"psql {VERSION}",
            "is_bound": psql.is_bound,
            **_prepare(psql),
            **cancel(psql),
            **copy(psql, TEMPORARY_TABLE),
            "streamed": stream(psql),
            "notified": _notify(psql),
            **recover(psql),
        }


def _prepare(psql: Psql) -> dict[str, Any]:
    rounds = "".join(f"execute square({n});" for n in range(1, 11))
    output = psql.run(
        f"prepare square as select $1::int * $1::int; {rounds} select count(*) from pg_prepared_statements;"
    )
    *squares, statements = map(int, output.split())
    return {"prepared": squares, "statements": statements}


def _notify(psql: Psql) -> list[str]:
    listener = psql.start("listen news; select 'listens';\n")
    wait_for_line(listener, "listens")
    psql.run(f"{NOTIFY};")
    output, _ = listener.communicate("select 'look';\n", timeout=60)
    return re.findall(r'with payload "(\w+)"', output)


print(json.dumps(main(*sys.argv[1:])))
