"""Going to the background: the rest of the program runs in a process of its own.

It is a fork, not a new program, because starting Python once more would make every start slower.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from bough.errors import Unavailable
from bough.supervisor import readiness


def detach(log_file: Path, keep_fd: int) -> int | None:
    """In the new process: the pipe through which it tells that it is ready.

    In the old process: None, as soon as that was told; its sentence is raised when it failed.
    """
    ready, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _daemonize(log_file, {keep_fd, write_end})
        return write_end
    os.close(write_end)
    os.close(keep_fd)
    _wait_until_ready(pid, ready, log_file)
    return None


def _daemonize(log_file: Path, kept: set[int]) -> None:
    """A session of our own, no terminal, and nothing open that belongs to whoever started us."""
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for place, fd in ((0, nothing), (1, log), (2, log)):
        os.dup2(fd, place)
    for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if fd > 2 and fd not in kept:
            with suppress(OSError):  # the one that listed the folder is closed already
                os.close(fd)


def _wait_until_ready(pid: int, ready: int, log_file: Path) -> None:
    try:
        error = readiness.parse_error(readiness.read_report(ready))
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    if error is not None:
        os.waitpid(pid, 0)
        raise Unavailable(error or f"The platform ended before it was ready; {log_file} says more.")
