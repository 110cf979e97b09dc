"""Runs psql at the pooled host. Usage: `URI ADDRESS`; prints one line of JSON."""

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

HAS_PROTOCOL_STATEMENTS = int(VERSION.split(".")[0]) >= 18  # it has commands for protocol-level prepared statements


def main(uri: str, address: str) -> dict[str, Any]:
    with open_psql(uri, address) as psql:
        results = {
            "client": f"psql {VERSION}",
            "is_bound": psql.is_bound,
            **_use_all(psql),
            **cancel(psql),
            **copy(psql, PERMANENT_TABLE),
            "streamed": stream(psql),
            **recover(psql),
            "listened": _listen(psql),
            "temporary": _temporary(psql),
            "locked": _lock(psql),
        }
        psql.run("notify news, 'heard'")
        return results


def _use_all(psql: Psql) -> dict[str, int]:
    """Each process has its own statement under the same name, and its own settings."""
    processes = [
        psql.start(f"{';'.join(make_settings(number))};\n{_make_rounds(number)}") for number in range(CONNECTIONS)
    ]
    outputs = [
        process.communicate(f"{SHOW_WORK_MEM}; {SHOW_CUSTOM_SETTING};\n", timeout=120)[0].splitlines()
        for process in processes
    ]
    correct = sum(
        lines[:-2].count(str(n * 1000 + number)) for number, lines in enumerate(outputs) for n in range(ROUNDS)
    )
    return count_kept_settings(correct, [lines[-2] for lines in outputs], [lines[-1] for lines in outputs])


def _make_rounds(number: int) -> str:
    """Prepares statements with the protocol if psql can, otherwise with SQL inside a transaction."""
    if HAS_PROTOCOL_STATEMENTS:
        rounds = "".join(f"\\bind_named same {n} \\g\n" for n in range(ROUNDS))
        return f"select $1::int * 1000 + {number} \\parse same\n{rounds}"
    return "".join(
        f"begin; prepare same as select $1::int * 1000 + {number}; execute same({n}); commit;\n" for n in range(ROUNDS)
    )


def _listen(psql: Psql) -> list[Any]:
    output = psql.run("listen news;")
    return [*find_sqlstates(output), "direct host" in output]


def _temporary(psql: Psql) -> list[Any]:
    outside = find_sqlstates(psql.run("create temp table staying (n int);"))
    output = psql.run(
        "begin; create temp table passing (n int); insert into passing values (1), (2), (3);\n"
        "select count(*) from passing; commit;\nselect * from passing;\n"
    )
    return [*outside, int(output.splitlines()[0]), *find_sqlstates(output)]


def _lock(psql: Psql) -> list[Any]:
    try_lock = "select pg_try_advisory_xact_lock(1);"
    holder = psql.start("begin; select pg_advisory_xact_lock(1); select 'held';\n")
    wait_for_line(holder, "held")
    during = psql.run(try_lock)
    holder.communicate("commit;\n", timeout=60)
    return [*find_sqlstates(psql.run("select pg_advisory_lock(1);")), during == "t\n", psql.run(try_lock) == "t\n"]


print(json.dumps(main(*sys.argv[1:])))
