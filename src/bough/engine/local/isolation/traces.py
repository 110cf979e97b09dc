"""What a user id leaves on the machine besides a project's own folders; the next who gets it must find nothing."""

import ctypes
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bough.engine.local.isolation import processes

# Where everybody may leave files: POSIX shared memory is the first, and code of a tenant knows the others.
_OPEN_FOLDERS = ("/dev/shm", "/tmp", "/var/tmp", "/run/lock", "/dev/mqueue")  # noqa: S108
_REMOVE = 0  # linux/ipc.h

_libc = ctypes.CDLL(None)
_IPC: dict[str, tuple[str, Callable[[int], object]]] = {
    "shm": ("shmid", lambda number: _libc.shmctl(number, _REMOVE, None)),
    "sem": ("semid", lambda number: _libc.semctl(number, 0, _REMOVE)),
    "msg": ("msqid", lambda number: _libc.msgctl(number, _REMOVE, None)),
}


def remove(uid: int) -> None:
    """Processes first: they could leave more."""
    processes.end_all_of(uid)
    forget_files(uid)
    _forget_ipc(uid)


def forget_files(uid: int) -> None:
    for folder in map(Path, _OPEN_FOLDERS):
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                with suppress(FileNotFoundError):  # others tidy beside us
                    if path.lstat().st_uid == uid:
                        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _forget_ipc(uid: int) -> None:
    """Segments, semaphores and queues of System V; a killed Postgres leaves a segment."""
    for kind, (name, remove_one) in _IPC.items():
        with suppress(FileNotFoundError):  # a kernel without them
            header, *lines = Path("/proc/sysvipc", kind).read_text().splitlines()
            for line in lines:
                row = dict(zip(header.split(), line.split(), strict=False))
                if row["uid"] == str(uid):
                    remove_one(int(row[name]))
