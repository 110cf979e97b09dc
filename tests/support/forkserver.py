"""Runs commands in processes that are forked from one that has already imported `bough`.

Importing in a new interpreter takes many times longer than most commands.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    [
        "pytest",  # a forked process imports the main module of its parent, which may be pytest
        "bough.cli.main",
        *(
            f"bough.cli.{name}"
            for name in ("config", "doctor.command", "down", "logs", "psql", "restart", "status", "up")
        ),
        *(f"bough.cli.storage.{name}" for name in ("init", "status")),
        "bough.cli.get_db.command",
        "bough.engine.local.engine",
    ]
)


def run_forked(
    arguments: Sequence[str], variables: Mapping[str, str], uid: int | None = None, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `bough` with these arguments; the variables are its whole environment.

    With a uid, it runs as that user and without supplementary groups.
    """
    with tempfile.TemporaryDirectory(prefix="bough-output-") as folder:
        process = _FORKSERVER.Process(target=_run_main, args=(list(arguments), dict(variables), folder, uid))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(["bough", *arguments], seconds)
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(["bough", *arguments], process.exitcode, out, err)


def _run_main(arguments: list[str], variables: dict[str, str], folder: str, uid: int | None) -> None:
    from bough.cli.main import main

    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    for descriptor, path in enumerate((os.devnull, f"{folder}/out", f"{folder}/err")):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    if uid is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    sys.argv = ["bough", *arguments]
    main()
