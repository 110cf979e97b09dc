"""Programs that drive real clients, each in a process of its own.

`clients/` has those for the direct host, and the verbs of each client; `pooled/` has those for the pooled one.
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
_JDBC = Path("/usr/share/java/postgresql.jar")  # Debian's package has it there


def python_command(module: str) -> Command:
    return sys.executable, "-m", f"journeys.{module}"


def node_command(file: str, node_modules: Path) -> Command:
    return "node", "--no-deprecation", _HERE / file, node_modules


def compile_jdbc_program(file: str, uri: str, folder: Path) -> Command:
    """Compiled into the folder, and with a file of hosts for the one in the URI."""
    is_here = _JDBC.exists() and shutil.which("javac") is not None
    requirements.require("java", is_here, "this test needs a JDK and pgjdbc")
    _output("javac", "-cp", _JDBC, "-sourcepath", _HERE / "clients", "-d", folder, _HERE / file)
    hosts = folder / "hosts"
    hosts.write_text(f"{ADDRESS} {urlsplit(uri).hostname}\n")
    return "java", f"-Djdk.net.hosts.file={hosts}", "-cp", f"{_JDBC}:{folder}", Path(file).stem


def run_client(*command: str | Path, **variables: str) -> dict[str, Any]:
    """What the program saw: the last line that it says, in JSON."""
    seen: dict[str, Any] = json.loads(_output(*command, **variables).splitlines()[-1])
    return seen


def install_packages(folder: Path) -> Path:
    """What Node needs."""
    return requirements.install_npm_packages(folder, "postgres-clients")


def _output(*command: str | Path, **variables: str) -> str:
    """From the folder of all tests, where Python finds the modules of ours that a program imports."""
    done = subprocess.run(
        command,
        cwd=_HERE.parent,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
