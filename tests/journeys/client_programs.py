"""Runs programs that use real clients, each in its own process.

`clients/` has the programs for the direct host and the actions of each client; `pooled/` has the programs for the
pooled host.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from journeys.served_project import ADDRESS
from support import requirements

Command = tuple[str | Path, ...]

EXPECTED_AT_BOTH_HOSTS: dict[str, Any] = {
    "cancelled": "57014",
    "after_cancel": 1,
    "copied": 10_000,
    "copied_bytes": 147_780,
    "streamed": 100 * 1024 * 1024,
    "refused": ["22012", "25P02"],
    "recovered": 7,
}
_HERE = Path(__file__).parent
_JDBC = Path("/usr/share/java/postgresql.jar")  # of the Debian package


def python_command(module: str) -> Command:
    return sys.executable, "-m", f"journeys.{module}"


def node_command(file: str, node_modules: Path) -> Command:
    return "node", "--no-deprecation", _HERE / file, node_modules


def compile_jdbc_program(file: str, uri: str, folder: Path) -> Command:
    """Compiles the program into the folder, and writes a hosts file that resolves the host of the URI."""
    is_available = _JDBC.exists() and shutil.which("javac") is not None
    requirements.require("java", is_available, "this test needs a JDK and pgjdbc")
    _run("javac", "-cp", _JDBC, "-sourcepath", _HERE / "clients", "-d", folder, _HERE / file)
    hosts = folder / "hosts"
    hosts.write_text(f"{ADDRESS} {urlsplit(uri).hostname}\n")
    return "java", f"-Djdk.net.hosts.file={hosts}", "-cp", f"{_JDBC}:{folder}", Path(file).stem


def run_client(*command: str | Path, **variables: str) -> dict[str, Any]:
    """Returns the last line of the output, parsed as JSON."""
    results: dict[str, Any] = json.loads(_run(*command, **variables).splitlines()[-1])
    return results


def install_packages(folder: Path) -> Path:
    return requirements.install_npm_packages(folder, "postgres-clients")


def _run(*command: str | Path, **variables: str) -> str:
    """Runs in the folder `tests`, where Python finds the modules that a program imports."""
    completed = subprocess.run(
        command,
        cwd=_HERE.parent,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    return completed.stdout
