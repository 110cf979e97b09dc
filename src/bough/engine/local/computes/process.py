"""Start a compute, wait until it is ready, stop it.

`postgres` is started directly, and says in its pid file when it accepts connections, so nothing
here connects to find out. The process outlives us; another control adopts it by its pid file.
"""

import asyncio
import os
import signal
import stat
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bough import clock
from bough.engine.local.computes import backup_label, postmaster, standby_files
from bough.engine.local.computes.compute_log import START_MARKER, read_start_error
from bough.engine.local.computes.postmaster import READY, PidFile, Postmaster
from bough.engine.local.folders import SOCKET_NAME
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation import launcher
from bough.engine.local.isolation.mount_namespace import MountNamespace
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import TenantFileError, unlink
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.port import EngineError

_SHORTEST_PAUSE = 0.0015  # between looks at one that starts: most are ready in a few of them
_LONGEST_PAUSE = 0.02
_SHORT_PAUSES = 60  # then it takes long anyway
_LOOK = 1.0  # seconds between two looks at one that is to end

# Fast shutdown writes a checkpoint, which may be long; after it come harsher ways, and recovery.
_STOPS = ((signal.SIGINT, 120.0), (signal.SIGQUIT, 15.0), (signal.SIGKILL, 15.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Everything a compute's process is started with."""

    install: Install
    from_template: bool  # nobody's roles and databases were in the volume before
    data: Path
    wal: Path
    conf: Path
    sockets: Path
    log: Path
    owner: Identity
    namespace: MountNamespace
    is_standby: bool = False  # it follows another server, or stands still

    @property
    def command(self) -> list[str]:
        """What must hold whatever a file says is given here: arguments are over all files."""
        settings = {
            "config_file": self.conf / "postgresql.conf",
            "hba_file": self.conf / "pg_hba.conf",
            "ident_file": self.conf / "pg_ident.conf",
            "unix_socket_directories": self.sockets,
            "listen_addresses": "",
            "port": 5432,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self.install.program_path("postgres"), "-D", str(self.data), *options]


def start(launch: LaunchOptions, start_context: AbstractContextManager[None]) -> int:
    """Start the process, `within` whatever it shall be born into, and return its pid.

    No postmaster may live on the data folder.
    """
    try:
        clean_up_after_crash(launch.data, launch.wal)
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


def _spawn(launch: LaunchOptions, within: AbstractContextManager[None]) -> int:
    log = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(log, f"{clock.now().isoformat()} {START_MARKER}\n".encode())
        process = launcher.spawn(launch.command, launch.owner, within, launch.namespace, stdout=log, stderr=log)
    finally:
        os.close(log)
    # It outlives this object and is reaped by its pid; an open return code would warn about a lost child.
    process.returncode = 0
    return process.pid


async def wait_until_ready(process: Postmaster, launch: LaunchOptions, deadline: float) -> bool:
    """Whether it accepts connections before the time is up; an error when it ended instead."""
    pause, looks = _SHORTEST_PAUSE, 0
    while True:
        file = PidFile.read(launch.data)
        if file is not None and file.pid == process.pid and file.status == READY:
            return True
        if process.has_ended():
            raise read_start_error(launch.log, launch.data)
        if clock.monotonic() >= deadline:
            return False
        await asyncio.sleep(pause)
        looks += 1
        if looks > _SHORT_PAUSES:
            pause = min(pause * 1.3, _LONGEST_PAUSE)


async def stop(process: Postmaster, *, immediate: bool = False) -> None:
    """At once: without a checkpoint, because its data is thrown away."""
    for number, seconds in _STOPS[1:] if immediate else _STOPS:
        process.signal(number)
        if await _wait_for_exit(process, seconds):
            return
    raise EngineError(f"The compute's process {process.pid} does not end, not even when killed.")


async def _wait_for_exit(process: Postmaster, seconds: float) -> bool:
    """Whether it ended in that time; not waited for any longer once it is seen stuck twice."""
    until = clock.monotonic() + seconds
    was_stuck = False
    while (left := until - clock.monotonic()) > 0:
        if await process.wait_for_exit(min(left, _LOOK)):
            return True
        is_stuck = postmaster.is_stuck_in_shutdown(process.pid)
        if was_stuck and is_stuck:
            return False
        was_stuck = is_stuck
    return False


def clean_up_after_crash(data: Path, wal: Path) -> None:
    """What a killed postmaster left, before another is started or its data is copied."""
    file = PidFile.read(data)
    if file is not None:
        _forget_postmaster(data, file)
    backup_label.restore_label(data, wal)


def _forget_postmaster(data: Path, file: PidFile) -> None:
    """Its children, and its pid file, which may name a stranger by now."""
    for pid in postmaster.find_orphans(data):
        orphan = Postmaster.open(pid)
        if orphan is not None:
            with orphan:
                orphan.signal(signal.SIGKILL)
    if Path(f"/proc/{file.pid}").exists():
        # Postgres takes the stranger for a postmaster and would never start. Its lock on shared
        # memory, which does not depend on this file, still keeps two servers apart.
        unlink(postmaster.PID_FILE_NAME, data)


def _ensure_sockets(folder: Path, owner: Identity) -> None:
    """A fresh folder: locks of sockets that a crash left could name a stranger too.

    It is ours, and until it is sealed only the compute may pass it and write into it.
    """
    remove_tree(folder)
    folder.mkdir(mode=0o700)
    if not owner.is_current_user:
        os.chown(folder, -1, owner.gid)
        folder.chmod(0o730)


def seal_socket_folder(folder: Path, gid: int) -> bool:
    """Nothing in the socket folder can be replaced any more, and the group may pass; may be repeated.

    A tenant's code could otherwise put a link to its neighbour's socket in the place of its own, and
    whoever is trusted by both would follow it. False when something else than a socket is there.
    """
    try:
        seen = folder.lstat()
        if (seen.st_gid, stat.S_IMODE(seen.st_mode)) != (gid, 0o710):
            os.chown(folder, -1, gid)
            folder.chmod(0o710)
        return stat.S_ISSOCK((folder / SOCKET_NAME).lstat().st_mode)
    except FileNotFoundError:
        return False
