"""Remove what a user id owns outside of the project's folders, before another project gets the id."""

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bough.engine.local.isolation import processes
from bough.engine.local.tenant_files import open_folder, scan_entries, stat_file
from bough.engine.local.tenant_trees import remove_entry

# Folders in which every user can create files. The first contains POSIX shared memory.
_WORLD_WRITABLE = ("/dev/shm", "/tmp", "/var/tmp", "/run/lock", "/dev/mqueue")  # noqa: S108
_REMOVE = 0  # linux/ipc.h

_libc = ctypes.CDLL(None)
_IPC: dict[str, tuple[str, Callable[[int], object]]] = {
    "shm": ("shmid", lambda number: _libc.shmctl(number, _REMOVE, None)),
    "sem": ("semid", lambda number: _libc.semctl(number, 0, _REMOVE)),
    "msg": ("msqid", lambda number: _libc.msgctl(number, _REMOVE, None)),
}


def remove_all_of_user(uid: int) -> None:
    """Kill processes first, because they could create more files."""
    processes.kill_all_of_user(uid)
    remove_files(uid)
    _remove_ipc(uid)


def remove_files(uid: int) -> None:
    """Remove direct entries only: in a folder of another user, that user decides."""
    for folder in map(Path, _WORLD_WRITABLE):
        with suppress(FileNotFoundError), open_folder(folder) as folder_fd:
            for entry in scan_entries(folder_fd, sys.maxsize):
                with suppress(FileNotFoundError):  # another process may have removed it
                    if stat_file(entry.name, folder_fd).st_uid == uid:
                        with suppress(OSError):
                            remove_entry(entry.name, folder_fd)


def _remove_ipc(uid: int) -> None:
    """Remove System V shared memory, semaphores and queues. A killed Postgres leaves shared memory."""
    for kind, (name, remove_one) in _IPC.items():
        with suppress(FileNotFoundError):  # the kernel may not support them
            header, *lines = Path("/proc/sysvipc", kind).read_text().splitlines()
            for line in lines:
                row = dict(zip(header.split(), line.split(), strict=False))
                if row["uid"] == str(uid):
                    remove_one(int(row[name]))
