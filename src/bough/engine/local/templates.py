"""One template data folder an install: initdb once, then every new project is a clone of it."""

import os
import subprocess
from pathlib import Path
from typing import Any

from bough.engine.local.durable_files import hold_file_lock
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation import launcher
from bough.engine.local.isolation.sandbox import Identity, current_identity, find_initdb_identity
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.local.volumes.atomic_folders import create_atomically
from bough.engine.local.volumes.tree_copy import chown_tree
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.postgres import MAINTENANCE_DATABASE, template
from bough.postgres.clone_filter import MAP_FORK_SUFFIXES
from bough.postgres.wal import SEGMENT_MB

_MAKING_SECONDS = 300


class Templates:
    def __init__(self, root: Path, volumes: Volumes) -> None:
        self._root = root
        self._volumes = volumes  # a template is made as volumes are, so that they can be cloned from it

    def path(self, install: str) -> Path:
        """Where the template of an install is, if it was made."""
        return self._root / install

    def ensure(self, install: Install, progress: Progress = ignore_progress) -> Path:
        """The data folder to clone. Two makers of the same one wait for each other."""
        place = self.path(install.id)
        if place.exists():
            return place
        with hold_file_lock(self._root / f"{install.id}.lock"):
            if not place.exists():
                progress(f"preparing Postgres {install.major}", 0, 1)
                driver = self._volumes.driver
                with create_atomically(place, driver) as making:
                    driver.make_folder(making)
                    _make(install, making)
                progress(f"preparing Postgres {install.major}", 1, 1)
        return place


def _make(install: Install, folder: Path) -> None:
    maker = find_initdb_identity()
    os.chown(folder, maker.uid, maker.gid)
    arguments = template.initdb_arguments(install.major)
    _run([install.program_path("initdb"), "--pgdata", str(folder), *arguments], maker, "", install)
    _run(_single_user(install, folder), maker, _script(install.major), install)
    (folder / "postmaster.opts").unlink(missing_ok=True)
    _drop_maps(folder)
    if not maker.is_current_user:
        chown_tree(folder, current_identity())


def _drop_maps(folder: Path) -> None:
    """A quarter of the files of an empty Postgres, and every clone pays for each file."""
    for path in [*folder.glob("base/*/*"), *folder.glob("global/*")]:
        if path.name.endswith(MAP_FORK_SUFFIXES):
            path.unlink()


def _single_user(install: Install, folder: Path) -> list[str]:
    """A server without sockets or helpers, that reads statements and ends with a checkpoint.

    The WAL is kept to two segments here too, for every clone carries what the template has.
    """
    options = ["-c", "exit_on_error=on", "-c", f"min_wal_size={2 * SEGMENT_MB}MB", "-c", "search_path=pg_catalog"]
    return [install.program_path("postgres"), "--single", "-D", str(folder), *options, MAINTENANCE_DATABASE]


def _script(major: int) -> str:
    """Single-user mode takes one statement a line."""
    return "".join(f"{statement}\n" for statement in template.setup_statements(major))


def _run(command: list[str], identity: Identity, given: str, install: Install) -> None:
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with launcher.spawn(command, identity, **streams) as process:
        try:
            output, _ = process.communicate(given.encode(), timeout=_MAKING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise EngineError(f"Postgres {install.major} took too long to prepare: the machine is too busy.") from None
    if process.returncode != 0:
        lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
        raise EngineError(
            f"Postgres {install.major} ({install.id}) could not be prepared: {(lines or ['no output'])[-1][:300]}",
            transient=False,
        )
