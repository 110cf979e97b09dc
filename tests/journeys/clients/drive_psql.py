"""psql does what people do with a database. `URI [ADDRESS]`, with PSQL in the environment; prints one line of JSON."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SLEEPS = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60);' and wait_event = 'PgSleep'"


class Psql:
    def __init__(self, uri: str, address: str, folder: Path) -> None:
        self.command = [
            os.environ.get("PSQL", "psql"),
            "--no-psqlrc",
            "--no-password",
            "-At",
            "-v",
            "VERBOSITY=verbose",
            uri,
        ]
        self.environment = {**os.environ, **({"PGHOSTADDR": address} if address else {})}
        self.folder = folder

    def run(self, statements: str) -> str:
        """All that it says, with the errors in between."""
        process = self.start()
        said, _ = process.communicate(statements, timeout=120)
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


def main(uri: str, address: str = "") -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        psql = Psql(uri, address, Path(folder))
        version = subprocess.run(
            [psql.command[0], "--version"], capture_output=True, text=True, check=True
        ).stdout.split()[2]
        prepared = "prepare square as select $1::int * $1::int;" + "".join(
            f"execute square({n});" for n in range(1, 11)
        )
        numbers = psql.run(f"{prepared} select count(*) from pg_prepared_statements;").split("\n")[1:]
        return {
            "client": f"psql {version}",
            "is_bound": "channel_binding=require" in uri,  # libpq refuses what is not
            "prepared": [int(line) for line in numbers[:10]],
            "statements": int(numbers[10]),
            **_cancel(psql),
            **_copy(psql),
            "streamed": _stream(psql),
            "notified": _notify(psql),
            **_recover(psql),
        }


def _cancel(psql: Psql) -> dict[str, Any]:
    process = psql.start()
    assert process.stdin is not None
    process.stdin.write("select pg_sleep(60);\nselect 1;\n")
    process.stdin.flush()
    while psql.run(SLEEPS) != "1\n":
        pass
    process.send_signal(signal.SIGINT)  # as Ctrl-C does
    said, _ = process.communicate(timeout=60)
    states = re.findall(r"ERROR: +(\w{5}):", said)
    # Not at a terminal psql reads no further after Ctrl-C, so another session asks.
    return {"cancelled": states[0] if states else None, "after_cancel": int(psql.run("select 1"))}


def _copy(psql: Psql) -> dict[str, Any]:
    rows = "".join(f"{n}\tword {n}\n" for n in range(10_000))
    (psql.folder / "in.txt").write_text(rows)
    said = psql.run(
        "create temp table copied (n int, word text);\n\\copy copied from 'in.txt'\n"
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


def _notify(psql: Psql) -> list[str]:
    process = psql.start()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("listen news;\n")
    process.stdin.flush()
    assert process.stdout.readline() == "LISTEN\n"
    psql.run("select pg_notify('news', word) from unnest(array['one', 'two']) word;")
    said, _ = process.communicate("select 'look';\n", timeout=60)
    return re.findall(r'with payload "(\w+)"', said)


def _recover(psql: Psql) -> dict[str, Any]:
    said = psql.run("begin; select 1 / 0; select 1; rollback; select 7;")
    return {"refused": re.findall(r"ERROR: +(\w{5}):", said), "recovered": int(said.split()[-1])}


print(json.dumps(main(*sys.argv[1:])))
