"""psql at the pooled host. `URI ADDRESS`, with PSQL in the environment; prints one line of JSON."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CROWD, ROUNDS = 8, 25
SLEEPS = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60);' and wait_event = 'PgSleep'"
PROGRAM = os.environ.get("PSQL", "psql")
VERSION = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
PREPARES = int(VERSION.split(".")[0]) >= 18  # then it has commands for statements of the protocol


class Psql:
    def __init__(self, uri: str, address: str, folder: Path) -> None:
        self.command = [PROGRAM, "--no-psqlrc", "--no-password", "-qAt", "-v", "VERBOSITY=verbose", uri]
        self.environment = {**os.environ, **({"PGHOSTADDR": address} if address else {})}
        self.folder = folder

    def run(self, statements: str) -> str:
        """All that it says, with the errors in between."""
        said, _ = self.start().communicate(statements, timeout=120)
        return said

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def main(uri: str, address: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        psql = Psql(uri, address, Path(folder))
        seen = {
            "client": f"psql {VERSION}",
            "is_bound": "channel_binding=require" in uri,  # libpq refuses what is not
            **_crowd(psql),
            **_cancel(psql),
            **_copy(psql),
            "streamed": _stream(psql),
            **_recover(psql),
            "listened": _listen(psql),
            "temporary": _temporary(psql),
            "locked": _lock(psql),
        }
        psql.run("notify news, 'heard'")
        return seen


def _states(said: str) -> list[str]:
    return re.findall(r"ERROR: +(\w{5}):", said)


def _crowd(psql: Psql) -> dict[str, int]:
    """Each has another statement under the same name, and settings of its own."""
    crowd = [psql.start() for _ in range(CROWD)]
    for number, process in enumerate(crowd):
        assert process.stdin is not None
        process.stdin.write(f"set work_mem = '{1000 + number}kB'; set my.word = 'word {number}';\n{_work(number)}")
        process.stdin.flush()
    said = [
        process.communicate("show work_mem; select current_setting('my.word', true);\n", timeout=120)[0].splitlines()
        for process in crowd
    ]
    return {
        "right": sum(
            lines[:-2].count(str(n * 1000 + number)) for number, lines in enumerate(said) for n in range(ROUNDS)
        ),
        "kept": sum(lines[-2] == f"{1000 + number}kB" for number, lines in enumerate(said)),
        "words": sum(lines[-1] == f"word {number}" for number, lines in enumerate(said)),
    }


def _work(number: int) -> str:
    """Prepared with the protocol where psql can; with SQL that is what a transaction may do."""
    if PREPARES:
        rounds = "".join(f"\\bind_named same {n} \\g\n" for n in range(ROUNDS))
        return f"select $1::int * 1000 + {number} \\parse same\n{rounds}"
    return "".join(
        f"begin; prepare same as select $1::int * 1000 + {number}; execute same({n}); commit;\n" for n in range(ROUNDS)
    )


def _cancel(psql: Psql) -> dict[str, Any]:
    process = psql.start()
    assert process.stdin is not None
    process.stdin.write("select pg_sleep(60);\nselect 1;\n")
    process.stdin.flush()
    while psql.run(SLEEPS) != "1\n":
        pass
    process.send_signal(signal.SIGINT)  # as Ctrl-C does
    said, _ = process.communicate(timeout=60)
    states = _states(said)
    # Not at a terminal psql reads no further after Ctrl-C, so another session asks.
    return {"cancelled": states[0] if states else None, "after_cancel": int(psql.run("select 1"))}


def _copy(psql: Psql) -> dict[str, Any]:
    rows = "".join(f"{n}\tword {n}\n" for n in range(10_000))
    (psql.folder / "in.txt").write_text(rows)
    said = psql.run(
        "drop table if exists copied;\ncreate table copied (n int, word text);\n\\copy copied from 'in.txt'\n"
        "\\copy (select * from copied order by n) to 'out.txt'\nselect count(*) from copied;\n"
    )
    return {"copied": int(said.split()[-1]), "copied_bytes": (psql.folder / "out.txt").stat().st_size}


def _stream(psql: Psql) -> int:
    process = psql.start()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\\set FETCH_COUNT 100\nselect repeat('x', 10240) from generate_series(1, 10240);\n")
    process.stdin.close()
    size = sum(len(line) - 1 for line in process.stdout)
    process.wait(timeout=60)
    return size


def _recover(psql: Psql) -> dict[str, Any]:
    said = psql.run("begin; select 1 / 0; select 1; rollback; select 7;")
    return {"refused": _states(said), "recovered": int(said.split()[-1])}


def _listen(psql: Psql) -> list[Any]:
    said = psql.run("listen news;")
    return [*_states(said), "direct host" in said]


def _temporary(psql: Psql) -> list[Any]:
    outside = _states(psql.run("create temp table staying (n int);"))
    said = psql.run(
        "begin; create temp table passing (n int); insert into passing values (1), (2), (3);\n"
        "select count(*) from passing; commit;\nselect * from passing;\n"
    )
    return [*outside, int(said.splitlines()[0]), *_states(said)]


def _lock(psql: Psql) -> list[Any]:
    tries = "select pg_try_advisory_xact_lock(1);"
    holding = psql.start()
    assert holding.stdin is not None
    assert holding.stdout is not None
    holding.stdin.write("begin; select pg_advisory_xact_lock(1); select 'held';\n")
    holding.stdin.flush()
    for line in holding.stdout:
        if line == "held\n":
            break
    meanwhile = psql.run(tries)
    holding.communicate("commit;\n", timeout=60)
    return [*_states(psql.run("select pg_advisory_lock(1);")), meanwhile == "t\n", psql.run(tries) == "t\n"]


print(json.dumps(main(*sys.argv[1:])))
