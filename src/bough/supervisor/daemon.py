"""Moves the rest of the program to a background process.

It forks instead of starting a new interpreter, because a second interpreter would make every start slower.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from bough.errors import Unavailable
from bough.supervisor import readiness


def detach(log_file: Path, keep_fd: int) -> int | None:
    """Return, in the new process, the pipe through which it reports readiness.

    In the old process, returns None once the new one is ready and raises its error if it fails.
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


def _daemonize(log_file: Path, kept_fds: set[int]) -> None:
    """Start a session without a terminal and close every descriptor inherited from the caller."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for standard_fd, fd in ((0, null), (1, log), (2, log)):
        os.dup2(fd, standard_fd)
    for fd in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if fd > 2 and fd not in kept_fds:
            with suppress(OSError):  # the descriptor that listed the folder is already closed
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
        raise Unavailable(error or f"The platform exited before it was ready; see {log_file}.")
