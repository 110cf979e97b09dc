"""Find the postmaster of a data folder, and hold it.

What is in a data folder may have been written by a tenant's code, so a pid found there is believed
only when the process runs as the project's user on that very folder; and it is held by a pidfd, so
that a recycled pid is never signalled.
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
_LARGEST = 4096  # bytes
_PID = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class PidFile:
    """What a postmaster writes about itself: its pid, its socket folder, and how it is."""

    pid: int
    socket_folder: str
    status: str

    @classmethod
    def read(cls, data: Path) -> Self | None:
        try:
            lines = read_file(PID_FILE_NAME, data, _LARGEST).decode(errors="replace").splitlines()
        except OSError:  # it is missing, or no file any more
            return None
        lines += [""] * (8 - len(lines))
        if not _PID.fullmatch(lines[0]):
            return None
        return cls(int(lines[0]), lines[4], lines[7].strip())


@dataclass(slots=True)
class Postmaster:
    """A process that was a postmaster when it was found. Use it in a `with`."""

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
        """Readable when it has ended; ours until it is closed."""
        return self._pidfd

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._pidfd)

    def __del__(self) -> None:
        self.close()  # a cancelled caller may never have held it

    def signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass

    def has_ended(self) -> bool:
        watch = select.poll()
        watch.register(self._pidfd, select.POLLIN)
        ended = bool(watch.poll(0))
        if ended:
            reap(self.pid)
        return ended

    async def wait_for_exit(self, timeout: float) -> bool:
        """Wait for its end, at most so long."""
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        loop.add_reader(self._pidfd, end.set)
        try:
            async with asyncio.timeout(timeout):
                await end.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._pidfd)
        reap(self.pid)
        return True


def find(data: Path, launched_pid: int | None = None) -> Postmaster | None:
    """The live postmaster of a data folder.

    `launched` is the process we started last, which may not have written its file yet.
    """
    for pid in _candidates(data, launched_pid):
        postmaster = Postmaster.open(pid)
        if postmaster is None:
            continue
        # In this order: once the pidfd is open, the pid cannot come to mean another process.
        if is_postmaster(pid, data):
            return postmaster
        postmaster.close()
    return None


def is_alive(data: Path, launched_pid: int | None = None) -> bool:
    return any(is_postmaster(pid, data) for pid in _candidates(data, launched_pid))


def _candidates(data: Path, launched: int | None) -> set[int]:
    file = PidFile.read(data)
    return {pid for pid in (file.pid if file else None, launched) if pid is not None}


def is_postmaster(pid: int, data: Path) -> bool:
    """Lives, runs as the folder's owner, and works in it or was told to."""
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
    """The server that was told to serve the data folder, and may not have written its file yet."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return next((pid for pid in pids if is_postmaster(pid, data) and _still_has_argument(pid, data)), None)


def find_orphans(data: Path) -> Iterator[int]:
    """Server processes in the data folder: without a postmaster they are left from one that was killed."""
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
    """Whether all that is left of a server is a checkpointer without work.

    One that is told to stop while it recovers from the crash of a session may wait for its checkpointer
    for ever, whom it never told to end (seen in 17). At its last checkpoint that one says so in its title.
    """
    try:
        titles = [processes.read_arguments(child) for child in processes.list_children(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return [title.rstrip(b"\0 ") for title in titles] == [b"postgres: checkpointer"]


def reap(pid: int) -> None:
    """Let the kernel forget a child of ours that ended; no matter if it is not ours."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def _owner_and_zombie(pid: int) -> tuple[int, bool]:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["Uid"].split()[1]), fields["State"].split()[0] in ("Z", "X")


def _works_in(pid: int, data: Path) -> bool:
    """Not to be seen without the right to trace, which containers withhold from root."""
    try:
        return os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), data.stat())
    except PermissionError:
        return False


def _has_argument(pid: int, data: Path) -> bool:
    """Its arguments name the folder, before it has gone there and where we may not look."""
    arguments = processes.read_arguments(pid).split(b"\0")
    return arguments[1:2] == [b"-D"] and len(arguments) > 2 and _is_same_folder(os.fsdecode(arguments[2]), data)


def _still_has_argument(pid: int, data: Path) -> bool:
    """Other than its children, who say what they do instead of what they were told."""
    try:
        return _has_argument(pid, data)
    except (FileNotFoundError, ProcessLookupError):
        return False


def _is_same_folder(path: str, data: Path) -> bool:
    """By what it leads to: a compute that was renamed knows its first name, which is a link.

    The path is what a process says of itself, so it is looked up only where volumes are: a tenant's path could lead
    anywhere, to a file system that never answers, say.
    """
    volumes, told = data.parent.parent, Path(path)
    if told.name != data.name or ".." in told.parts or told.parent.parent not in (volumes, _resolved(volumes)):
        return False
    try:
        return told.samefile(data)
    except OSError:
        return False


def _resolved(folder: Path) -> Path:
    """By its name without links, which a control before this one may have been given."""
    return Path(os.path.realpath(folder))


def _is_postgres(entry: Path) -> bool:
    return (entry / "comm").read_text().strip() == "postgres"
