"""Actions of psql at the direct and the pooled host. The variable PSQL names the program."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journeys.clients.statements import COUNT_SLEEPING, LARGE_RESULT, SLEEP

PROGRAM = os.environ.get("PSQL", "psql")
VERSION = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[2]

Process = subprocess.Popen[str]


@dataclass(frozen=True)
class Psql:
    uri: str
    address: str  # if empty, the URI determines it
    folder: Path

    @property
    def is_bound(self) -> bool:
        return "channel_binding=require" in self.uri  # libpq then refuses connections without channel binding

    def run(self, statements: str) -> str:
        """Runs statements. Returns the output, with errors in order."""
        output, _ = self.start().communicate(statements, timeout=120)
        return output

    def start(self, statements: str = "") -> Process:
        """Starts psql with the statements. It then waits for more input."""
        process = subprocess.Popen(
            [PROGRAM, "--no-psqlrc", "--no-password", "-qAt", "-v", "VERBOSITY=verbose", self.uri],
            env={**os.environ, **({"PGHOSTADDR": self.address} if self.address else {})},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(statements)
        process.stdin.flush()
        return process


@contextmanager
def open_psql(uri: str, address: str) -> Iterator[Psql]:
    """Opens psql with a temporary working directory."""
    with tempfile.TemporaryDirectory() as folder:
        yield Psql(uri, address, Path(folder))


def find_sqlstates(output: str) -> list[str]:
    return re.findall(r"ERROR: +(\w{5}):", output)


def wait_for_line(process: Process, line: str) -> None:
    assert process.stdout is not None
    assert f"{line}\n" in process.stdout


def cancel(psql: Psql) -> dict[str, Any]:
    process = psql.start(f"{SLEEP};\nselect 1;\n")
    while psql.run(COUNT_SLEEPING) != "1\n":
        pass
    process.send_signal(signal.SIGINT)  # as Ctrl-C does
    output, _ = process.communicate(timeout=60)
    # Without a terminal, psql exits after Ctrl-C, so a new process runs the next query.
    return {"cancelled": next(iter(find_sqlstates(output)), None), "after_cancel": int(psql.run("select 1"))}


def copy(psql: Psql, table: tuple[str, ...]) -> dict[str, Any]:
    (psql.folder / "in.txt").write_text("".join(f"{n}\tword {n}\n" for n in range(10_000)))
    output = psql.run(
        f"{';'.join(table)};\n\\copy copied from 'in.txt'\n"
        "\\copy (select * from copied order by n) to 'out.txt'\nselect count(*) from copied;\n"
    )
    return {"copied": int(output.split()[-1]), "copied_bytes": (psql.folder / "out.txt").stat().st_size}


def stream(psql: Psql) -> int:
    process = psql.start(f"\\set FETCH_COUNT 100\n{LARGE_RESULT};\n")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    size = sum(len(line) - 1 for line in process.stdout)
    process.wait(timeout=60)
    return size


def recover(psql: Psql) -> dict[str, Any]:
    output = psql.run("begin; select 1 / 0; select 1; rollback; select 7;")
    return {"refused": find_sqlstates(output), "recovered": int(output.split()[-1])}
