"""psql at the pooled host. `URI ADDRESS`; prints one line of JSON."""

import json
import sys
from typing import Any

from journeys.clients.psql_actions import (
    VERSION,
    Psql,
    cancel,
    copy,
    find_sqlstates,
    open_psql,
    recover,
    stream,
    wait_for_line,
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

PREPARES = int(VERSION.split(".")[0]) >= 18  # then it has commands for statements of the protocol


def main(uri: str, address: str) -> dict[str, Any]:
    with open_psql(uri, address) as psql:
        seen = {
            "client": f"psql {VERSION}",
            "is_bound": psql.is_bound,
            **_crowd(psql),
            **cancel(psql),
            **copy(psql, PERMANENT_TABLE),
            "streamed": stream(psql),
            **recover(psql),
            "listened": _listen(psql),
            "temporary": _temporary(psql),
            "locked": _lock(psql),
        }
        psql.run("notify news, 'heard'")
        return seen


def _crowd(psql: Psql) -> dict[str, int]:
    """Each has another statement under the same name, and settings of its own."""
    crowd = [psql.start(f"{';'.join(make_settings(number))};\n{_work(number)}") for number in range(CONNECTIONS)]
    said = [
        process.communicate(f"{SHOW_WORK_MEM}; {SHOW_CUSTOM_SETTING};\n", timeout=120)[0].splitlines()
        for process in crowd
    ]
    right = sum(lines[:-2].count(str(n * 1000 + number)) for number, lines in enumerate(said) for n in range(ROUNDS))
    return count_kept_settings(right, [lines[-2] for lines in said], [lines[-1] for lines in said])


def _work(number: int) -> str:
    """Prepared with the protocol where psql can; with SQL that is what a transaction may do."""
    if PREPARES:
        rounds = "".join(f"\\bind_named same {n} \\g\n" for n in range(ROUNDS))
        return f"select $1::int * 1000 + {number} \\parse same\n{rounds}"
    return "".join(
        f"begin; prepare same as select $1::int * 1000 + {number}; execute same({n}); commit;\n" for n in range(ROUNDS)
    )


def _listen(psql: Psql) -> list[Any]:
    said = psql.run("listen news;")
    return [*find_sqlstates(said), "direct host" in said]


def _temporary(psql: Psql) -> list[Any]:
    outside = find_sqlstates(psql.run("create temp table staying (n int);"))
    said = psql.run(
        "begin; create temp table passing (n int); insert into passing values (1), (2), (3);\n"
        "select count(*) from passing; commit;\nselect * from passing;\n"
    )
    return [*outside, int(said.splitlines()[0]), *find_sqlstates(said)]


def _lock(psql: Psql) -> list[Any]:
    tries = "select pg_try_advisory_xact_lock(1);"
    holding = psql.start("begin; select pg_advisory_xact_lock(1); select 'held';\n")
    wait_for_line(holding, "held")
    meanwhile = psql.run(tries)
    holding.communicate("commit;\n", timeout=60)
    return [*find_sqlstates(psql.run("select pg_advisory_lock(1);")), meanwhile == "t\n", psql.run(tries) == "t\n"]


print(json.dumps(main(*sys.argv[1:])))
