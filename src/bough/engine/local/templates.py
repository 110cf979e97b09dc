"""Template data directories: initdb runs once for installs that it creates the same with; new projects are clones."""

import os
import subprocess
from pathlib import Path
from typing import Any

from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation import launcher
from bough.engine.local.isolation.sandbox import ENVIRONMENT, Identity, current_identity, find_initdb_identity
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.local.volumes.atomic_folders import (
    REMOVAL_SUFFIX,
    STAGING_SUFFIX,
    create_atomically,
    remove_atomically,
)
from bough.engine.local.volumes.tree_copy import chown_tree
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.postgres import MAINTENANCE_DATABASE, statement_statistics, template
from bough.postgres.clone_filter import MAP_FORK_SUFFIXES
from bough.postgres.wal import SEGMENT_MB

_TIMEOUT_SECONDS = 300


class Templates:
    def __init__(self, root: Path, volumes: Volumes) -> None:
        self._root = root
        self._volumes = volumes  # its driver creates the template, so that volumes can be clones of it

    def path(self, install: str) -> Path:
        """Return the path of the template of an install, which need not exist."""
        return self._root / install

    def ensure(self, install: Install, progress: Progress = ignore_progress) -> Path:
        """Return the data directory to clone. Concurrent callers wait for each other."""
        path = self.path(install.template_name)
        if path.exists():
            return path
        with hold_file_lock(self._root / f"{install.template_name}.lock"):
            if not path.exists():
                progress(f"preparing Postgres {install.major}", 0, 1)
                driver = self._volumes.driver
                with create_atomically(path, driver) as staged:
                    driver.make_folder(staged)
                    _create(install, staged)
                progress(f"preparing Postgres {install.major}", 1, 1)
        return path

    def list_names(self) -> set[str]:
        """Return the complete templates."""
        paths = self._root.iterdir() if self._root.is_dir() else ()
        return {path.name for path in paths if path.is_dir() and path.suffix not in (STAGING_SUFFIX, REMOVAL_SUFFIX)}

    def remove(self, name: str) -> None:
        """Remove a template that no volume was cloned from."""
        with hold_file_lock(self._root / f"{name}.lock"):
            remove_atomically(self.path(name), self._volumes.driver)


def _create(install: Install, folder: Path) -> None:
    user = find_initdb_identity()
    os.chown(folder, user.uid, user.gid)
    arguments = template.initdb_arguments(install.major)
    _run([install.program_path("initdb"), "--pgdata", str(folder), *arguments], user, "", install)
    _run(_single_user(install, folder), user, _script(install), install)
    (folder / "postmaster.opts").unlink(missing_ok=True)
    _remove_maps(folder)
    if not user.is_current_user:
        chown_tree(folder, current_identity())


def _remove_maps(folder: Path) -> None:
    """The maps are a quarter of the files of an empty Postgres, and every file makes a clone slower."""
    for path in [*folder.glob("base/*/*"), *folder.glob("global/*")]:
        if path.name.endswith(MAP_FORK_SUFFIXES):
            path.unlink()


def _single_user(install: Install, folder: Path) -> list[str]:
    """Return the command of a single-user server, which reads statements and ends with a checkpoint.

    WAL is limited to two segments, because every clone contains that of the template.
    """
    options = ["-c", "exit_on_error=on", "-c", f"min_wal_size={2 * SEGMENT_MB}MB", "-c", "search_path=pg_catalog"]
    return [install.program_path("postgres"), "--single", "-D", str(folder), *options, MAINTENANCE_DATABASE]


def _script(install: Install) -> str:
    """Single-user mode reads one statement per line."""
    statements = template.setup_statements(install.major)
    if install.has_library(statement_statistics.EXTENSION):
        statements += statement_statistics.CREATE
    return "".join(f"{statement}\n" for statement in statements)


def _run(command: list[str], identity: Identity, stdin: str, install: Install) -> None:
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with launcher.spawn(command, identity, env=ENVIRONMENT | install.environment, **options) as process:
        try:
            output, _ = process.communicate(stdin.encode(), timeout=_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise EngineError(
                f"Postgres {install.major} took too long to prepare: the machine is overloaded."
            ) from None
    if process.returncode != 0:
        lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
        raise EngineError(
            f"Postgres {install.major} ({install.id}) could not be prepared: {(lines or ['no output'])[-1][:300]}",
            transient=False,
        )
