"""The baseline of a new project: a Postgres server created by hand with `initdb` and `postgres`.

Binaries, initdb options and settings are those of our computes, except that it archives no WAL.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from bough.config import default_cache
from bough.control.defaults import MAX_CU
from bough.engine.local.computes.pid_file import READY, PidFile
from bough.engine.local.installs import installs
from bough.engine.local.isolation.sandbox import build_popen_options, find_initdb_identity
from bough.engine.spec import build_compute_settings, build_size_settings
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE, postgresql_conf, template

MAJOR = 17
SETTINGS = postgresql_conf.render(
    {**build_size_settings(MAX_CU), **build_compute_settings(MAX_CU, logical_replication=False), "archive_mode": "off"},
    major=MAJOR,
)
_INITDB_OPTIONS = [word for word in template.initdb_arguments(MAJOR) if not word.startswith("--auth")]
POLL_SECONDS = 0.001  # between two reads of the pid file


def _find_program(name: str) -> str:
    return installs.select_preferred(installs.find_installs(default_cache()).values())[MAJOR].program_path(name)


def describe_configuration() -> tuple[str, ...]:
    """Return the exact commands and settings."""
    return (
        " ".join([_find_program("initdb"), "-D", "DATA", "--auth=trust", *_INITDB_OPTIONS])
        + " (on ext4 in a folder with chattr +T)",
        f"{_find_program('postgres')} -D DATA -c unix_socket_directories=SOCKETS, ready when "
        "DATA/postmaster.pid says so",
        f'asyncpg: connect to SOCKETS as {ADMIN_ROLE}, "select 1"',
        "DATA/postgresql.conf: " + ", ".join(SETTINGS.splitlines()),
    )


class PlainPostgres:
    def __init__(self, folder: Path) -> None:
        self.sockets = folder
        self.data = folder / "data"
        self._options = build_popen_options(find_initdb_identity())
        self._process: subprocess.Popen[bytes] | None = None

    def initdb(self) -> None:
        command = [_find_program("initdb"), "-D", str(self.data), "--auth=trust", *_INITDB_OPTIONS]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, **self._options)
        (self.data / "postgresql.conf").write_text(SETTINGS)

    def start(self, *options: str) -> None:
        """Wait until it accepts connections."""
        command = [_find_program("postgres"), "-D", str(self.data), "-c", f"unix_socket_directories={self.sockets}"]
        self._process = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL, **self._options)
        while (file := PidFile.read(self.data)) is None or file.status != READY:
            if self._process.poll() is not None:
                raise RuntimeError("the Postgres server created by hand ended")
            time.sleep(POLL_SECONDS)

    def run(self, *command: str) -> None:
        """Run a program as the user of the server."""
        subprocess.run(command, check=True, **self._options)

    async def connect(self) -> Any:
        return await asyncpg.connect(
            host=str(self.sockets), user=ADMIN_ROLE, database=MAINTENANCE_DATABASE, password="", ssl=False
        )

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()


@contextmanager
def create_work_folder() -> Iterator[Path]:
    """Yield a folder for several servers, removed at the end.

    ext4 creates files slowly near many files that were just deleted, and an earlier bench deletes many. The
    attribute T places new folders elsewhere, so that the baseline is not affected.
    """
    folder = Path(tempfile.mkdtemp(prefix="bough-bench-", dir="/tmp"))
    folder.chmod(0o711)
    if chattr := shutil.which("chattr"):
        subprocess.run([chattr, "+T", str(folder)], stderr=subprocess.DEVNULL, check=False)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def create_postgres(work_folder: Path) -> Iterator[PlainPostgres]:
    """Yield a server that is not created yet; stop it at the end."""
    folder = Path(tempfile.mkdtemp(dir=work_folder))
    owner = find_initdb_identity()
    os.chown(folder, owner.uid, owner.gid)
    created = PlainPostgres(folder)
    try:
        yield created
    finally:
        created.stop()
