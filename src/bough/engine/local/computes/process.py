"""Start the process of a compute, wait until it is ready, and stop it.

`postgres` is started directly and writes to its pid file when it accepts connections, so that no probe needs to
connect. The process outlives control; the next control process finds it by its pid file.
"""

import asyncio
import os
import signal
import stat
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bough import clock
from bough.engine.local.computes import audit_files, backup_label, postmaster, standby_files
from bough.engine.local.computes.compute_log import START_MARKER, read_start_error
from bough.engine.local.computes.foreign_slots import remove_foreign_slots
from bough.engine.local.computes.launch_options import LaunchOptions
from bough.engine.local.computes.pid_file import PID_FILE_NAME, READY, PidFile
from bough.engine.local.computes.postmaster_process import Postmaster, find_logger, is_stuck_in_shutdown
from bough.engine.local.folders import SOCKET_NAME
from bough.engine.local.isolation import launcher
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.local.tenant_files import unlink
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.port import EngineError

_MIN_READY_POLL = 0.0015  # seconds; most servers are ready within a few polls
_MAX_READY_POLL = 0.02
_FAST_POLLS = 60  # then the interval grows
_LOGGER_TIMEOUT = 2.0
_STUCK_POLL = 1.0  # seconds between checks of a server that is shutting down

# A fast shutdown writes a checkpoint, which may take long. The others require crash recovery.
_STOP_SIGNALS = ((signal.SIGINT, 120.0), (signal.SIGQUIT, 15.0), (signal.SIGKILL, 15.0))


def start(launch: LaunchOptions, start_context: AbstractContextManager[None]) -> int:
    """Start the process inside `start_context` and return its pid. No postmaster may run on the data directory."""
    try:
        clean_up_after_crash(launch.data, launch.wal)
        remove_foreign_slots(launch.data)
        if launch.is_standby:
            standby_files.create_signal(launch.data, launch.owner)
        else:
            standby_files.remove_signal(launch.data)
        _ensure_sockets(launch.sockets, launch.owner)
        return _spawn(launch, start_context)
    except TenantFileError as error:
        raise EngineError(error.message, transient=False) from error
    except OSError as error:
        raise EngineError(f"The compute cannot be started: {error.strerror} ({launch.install.id}).") from error


def _spawn(launch: LaunchOptions, start_context: AbstractContextManager[None]) -> int:
    log = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(log, f"{clock.now().isoformat()} {START_MARKER}\n".encode())
        streams: dict[str, Any] = {"env": launch.environment, "stdout": log, "stderr": log}
        if launch.audit_folder is not None:
            audit_files.prepare(launch.audit_folder, launch.log, launch.owner)
        process = launcher.spawn(launch.command, launch.owner, start_context, launch.namespace, **streams)
    finally:
        os.close(log)
    # The process outlives this object and is reaped by its pid. Without a return code Popen would warn about it.
    process.returncode = 0
    return process.pid


async def wait_until_ready(process: Postmaster, launch: LaunchOptions, deadline: float) -> bool:
    """Return whether it accepts connections before the deadline. Raise an EngineError when it has ended."""
    interval, polls = _MIN_READY_POLL, 0
    while True:
        file = PidFile.read(launch.data)
        if file is not None and file.pid == process.pid and file.status == READY:
            return True
        if process.has_ended():
            raise read_start_error(launch.log, launch.data)
        if clock.monotonic() >= deadline:
            return False
        await asyncio.sleep(interval)
        polls += 1
        if polls > _FAST_POLLS:
            interval = min(interval * 1.3, _MAX_READY_POLL)


async def stop(process: Postmaster, *, immediate: bool = False) -> None:
    """Stop the server. `immediate` skips the checkpoint, for a server whose data is discarded."""
    logger_pid = find_logger(process.pid)
    for number, timeout in _STOP_SIGNALS[1:] if immediate else _STOP_SIGNALS:
        process.signal(number)
        if await _wait_for_exit(process, timeout):
            await _wait_for_logger(logger_pid)
            return
    raise EngineError(f"The compute's process {process.pid} did not end after SIGKILL.")


async def _wait_for_logger(pid: int | None) -> None:
    """Wait until the logger of an audited server has written the last messages, which it does after the server ended.

    It runs under the compute's user id, so it gets a limited time.
    """
    logger = None if pid is None else Postmaster.open(pid)
    if logger is not None:
        with logger:
            await logger.wait_for_exit(_LOGGER_TIMEOUT)


async def _wait_for_exit(process: Postmaster, timeout: float) -> bool:
    """Return whether it ended in time. Stop waiting when two checks in a row find it stuck."""
    deadline = clock.monotonic() + timeout
    was_stuck = False
    while (remaining := deadline - clock.monotonic()) > 0:
        if await process.wait_for_exit(min(remaining, _STUCK_POLL)):
            return True
        is_stuck = is_stuck_in_shutdown(process.pid)
        if was_stuck and is_stuck:
            return False
        was_stuck = is_stuck
    return False


def clean_up_after_crash(data: Path, wal: Path) -> None:
    """Clean up after a killed postmaster, before another is started or the data is copied."""
    file = PidFile.read(data)
    if file is not None:
        _clean_up_postmaster(data, file)
    backup_label.restore_label(data, wal)


def _clean_up_postmaster(data: Path, file: PidFile) -> None:
    """Kill its remaining children, and remove its pid file if the pid now belongs to another process."""
    for pid in postmaster.find_orphans(data):
        orphan = Postmaster.open(pid)
        if orphan is not None:
            with orphan:
                orphan.signal(signal.SIGKILL)
    if Path(f"/proc/{file.pid}").exists():
        # Postgres would take that process for a postmaster and refuse to start. The lock on shared memory, which does
        # not depend on this file, still prevents two servers on one data directory.
        unlink(PID_FILE_NAME, data)


def _ensure_sockets(folder: Path, owner: Identity) -> None:
    """Recreate the folder, because socket lock files that a crash left may name the pid of another process.

    The platform owns the folder. Until it is sealed, only the compute may traverse it and write to it.
    """
    remove_tree(folder)
    folder.mkdir(mode=0o700)
    if not owner.is_current_user:
        os.chown(folder, -1, owner.gid)
        folder.chmod(0o730)


def seal_socket_folder(folder: Path, gid: int) -> bool:
    """Make the contents of the folder immutable and allow the group to traverse it. Idempotent.

    Otherwise a tenant's code could replace its socket by a link to the socket of another project, and a client that
    both trust would follow it. Return False when the entry is not a socket.
    """
    try:
        status = folder.lstat()
        if (status.st_gid, stat.S_IMODE(status.st_mode)) != (gid, 0o710):
            os.chown(folder, -1, gid)
            folder.chmod(0o710)
        return stat.S_ISSOCK((folder / SOCKET_NAME).lstat().st_mode)
    except FileNotFoundError:
        return False
