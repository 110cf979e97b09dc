"""Find the postmaster of a data folder.

A tenant's code can write to the data folder. Therefore a pid found there is trusted only when its process runs as the
project's user in that folder, and the process is held by a pidfd, so that a recycled pid is never signalled.
"""

import asyncio
import os
import re
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bough.engine.local.isolation import processes
from bough.engine.local.tenant_files import read_file

PID_FILE_NAME = "postmaster.pid"
READY = "ready"
STOPPING = "stopping"
_MAX_PID_FILE_BYTES = 4096
_PID = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class PidFile:
    """The contents of postmaster.pid: pid, socket folder and status."""

    pid: int
    socket_folder: str
    status: str

    @classmethod
    def read(cls, data: Path) -> Self | None:
        try:
            lines = read_file(PID_FILE_NAME, data, _MAX_PID_FILE_BYTES).decode(errors="replace").splitlines()
        except OSError:  # missing, or replaced by something that is not a file
            return None
        lines += [""] * (8 - len(lines))
        if not _PID.fullmatch(lines[0]):
            return None
        return cls(int(lines[0]), lines[4], lines[7].strip())


@dataclass(slots=True)
class Postmaster:
    """A process that was a postmaster when it was found. A context manager."""

    pid: int
    _pidfd: int
    _is_open: bool = True

    @classmethod
    def open(cls, pid: int) -> Self | None:
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pidfd(self) -> int:
        """Becomes readable when the process ends. Valid until `close`."""
        return self._pidfd

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._pidfd)

    def __del__(self) -> None:
        self.close()  # a caller that was cancelled never entered the context

    def signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass

    def has_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        ended = bool(poll.poll(0))
        if ended:
            reap(self.pid)
        return ended

    async def wait_for_exit(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the process to end. Return whether it ended."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            async with asyncio.timeout(timeout):
                await ended.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._pidfd)
        reap(self.pid)
        return True


def find(data: Path, launched_pid: int | None = None) -> Postmaster | None:
    """Return the live postmaster of a data folder.

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
    """Return the postmaster whose arguments name the data folder. It may not have written its pid file yet."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return next((pid for pid in pids if is_postmaster(pid, data) and _still_has_argument(pid, data)), None)


def find_orphans(data: Path) -> Iterator[int]:
    """Return the server processes in the data folder. Without a postmaster, they are left from one that was killed."""
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


def is_stuck_in_shutdown(pid: int) -> bool:
    """Return whether an idle checkpointer is the only remaining child of the server.

    A server that is stopped while it recovers from the crash of a session may wait for ever for its checkpointer,
    which it never told to exit (seen in Postgres 17). During the shutdown checkpoint the process title differs.
    """
    try:
        titles = [processes.read_arguments(child) for child in processes.list_children(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return [title.rstrip(b"\0 ") for title in titles] == [b"postgres: checkpointer"]


def reap(pid: int) -> None:
    """Reap an ended child process. Ignore a process that is not a child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


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
