"""Find the postmaster of a data directory.

A tenant's code can write to the data directory. Therefore a pid found there is trusted only when its process runs as
the project's user in that folder. The pidfd is opened before this check, so that a recycled pid is never signalled.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from bough.engine.local.computes.pid_file import PidFile
from bough.engine.local.computes.postmaster_process import Postmaster, reap
from bough.engine.local.isolation import processes


def find(data: Path, launched_pid: int | None = None) -> Postmaster | None:
    """Return the live postmaster of a data directory.

    `launched_pid` is the last process started on it, which may not have written its pid file yet.
    """
    for pid in _candidates(data, launched_pid):
        postmaster = Postmaster.open(pid)
        if postmaster is None:
            continue
        # In this order: while the pidfd is open, the pid cannot be reused for another process.
        if is_postmaster(pid, data):
            return postmaster
        postmaster.close()
    return None


def is_alive(data: Path, launched_pid: int | None = None) -> bool:
    return any(is_postmaster(pid, data) for pid in _candidates(data, launched_pid))


def _candidates(data: Path, launched_pid: int | None) -> set[int]:
    file = PidFile.read(data)
    return {pid for pid in (file.pid if file else None, launched_pid) if pid is not None}


def is_postmaster(pid: int, data: Path) -> bool:
    """Return whether the process is alive, runs as the folder's owner, and uses the folder."""
    try:
        owner, is_zombie = _owner_and_zombie(pid)
        if owner != data.stat().st_uid:
            return False
        if is_zombie:
            reap(pid)
            return False
        return _works_in(pid, data) or _has_argument(pid, data)
    except (FileNotFoundError, ProcessLookupError):
        return False


def find_starting(data: Path) -> int | None:
    """Return the postmaster whose arguments name the data directory. It may not have written its pid file yet."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return next((pid for pid in pids if is_postmaster(pid, data) and _still_has_argument(pid, data)), None)


def find_orphans(data: Path) -> Iterator[int]:
    """Return the server processes in the data directory. Without a postmaster, a killed one left them."""
    uid = data.stat().st_uid
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            owner, is_zombie = _owner_and_zombie(int(entry.name))
            if owner == uid and not is_zombie and _works_in(int(entry.name), data) and _is_postgres(entry):
                yield int(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            continue


def _owner_and_zombie(pid: int) -> tuple[int, bool]:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["Uid"].split()[1]), fields["State"].split()[0] in ("Z", "X")


def _works_in(pid: int, data: Path) -> bool:
    """Reading `cwd` requires permission to trace, which root lacks in many containers."""
    try:
        return os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), data.stat())
    except PermissionError:
        return False


def _has_argument(pid: int, data: Path) -> bool:
    """Return whether its arguments name the folder: it may not have changed to it yet, or `cwd` may be unreadable."""
    arguments = processes.read_arguments(pid).split(b"\0")
    return arguments[1:2] == [b"-D"] and len(arguments) > 2 and _is_same_folder(os.fsdecode(arguments[2]), data)


def _still_has_argument(pid: int, data: Path) -> bool:
    """Exclude its children, which replace their arguments by a process title."""
    try:
        return _has_argument(pid, data)
    except (FileNotFoundError, ProcessLookupError):
        return False


def _is_same_folder(path: str, data: Path) -> bool:
    """Compare inodes, because a compute from the warm pool knows its folder by its first name, which is now a link.

    The process chooses its arguments, so only paths below the folder of volumes are looked up: a tenant's path could
    lead to a file system that never responds.
    """
    volumes, candidate = data.parent.parent, Path(path)
    parents = (volumes, Path(os.path.realpath(volumes)))  # an earlier control process may have resolved links
    if candidate.name != data.name or ".." in candidate.parts or candidate.parent.parent not in parents:
        return False
    try:
        return candidate.samefile(data)
    except OSError:
        return False


def _is_postgres(entry: Path) -> bool:
    return (entry / "comm").read_text().strip() == "postgres"
