"""What a user id leaves on the machine besides a project's own folders; the next who gets it must find nothing."""

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bough.engine.local.isolation import processes
from bough.engine.local.tenant_files import open_folder, scan_entries, stat_file
from bough.engine.local.tenant_trees import remove_entry

# Where everybody may leave files: POSIX shared memory is the first, and code of a tenant knows the others.
_OPEN_FOLDERS = ("/dev/shm", "/tmp", "/var/tmp", "/run/lock", "/dev/mqueue")  # noqa: S108
_REMOVE = 0  # linux/ipc.h

_libc = ctypes.CDLL(None)
_IPC: dict[str, tuple[str, Callable[[int], object]]] = {
    "shm": ("shmid", lambda number: _libc.shmctl(number, _REMOVE, None)),
    "sem": ("semid", lambda number: _libc.semctl(number, 0, _REMOVE)),
    "msg": ("msqid", lambda number: _libc.msgctl(number, _REMOVE, None)),
}


def remove_all_of_user(uid: int) -> None:
    """Processes first: they could leave more."""
    processes.kill_all_of_user(uid)
    remove_files(uid)
    _remove_ipc(uid)


def remove_files(uid: int) -> None:
    """Only what lies in these folders themselves: a folder of another user is that user's."""
    for folder in map(Path, _OPEN_FOLDERS):
        with suppress(FileNotFoundError), open_folder(folder) as here:
            for entry in scan_entries(here, sys.maxsize):
                with suppress(FileNotFoundError):  # others tidy beside us
                    if stat_file(entry.name, here).st_uid == uid:
                        with suppress(OSError):
                            remove_entry(entry.name, here)


def _remove_ipc(uid: int) -> None:
    """Segments, semaphores and queues of System V; a killed Postgres leaves a segment."""
    for kind, (name, remove_one) in _IPC.items():
        with suppress(FileNotFoundError):  # a kernel without them
            header, *lines = Path("/proc/sysvipc", kind).read_text().splitlines()
            for line in lines:
                row = dict(zip(header.split(), line.split(), strict=False))
                if row["uid"] == str(uid):
                    remove_one(int(row[name]))
