"""Where the engine keeps things, and who may pass.

Computes run under other users when we are root, so every folder on the way to their files must
be traversable, while only the leaves may be opened.
"""

import fcntl
import os
import stat
from array import array
from pathlib import Path

from bough.config import FILE_NAME, Settings, is_root
from bough.engine.local.images.image import Image
from bough.engine.local.isolation.mount_namespace import MountNamespace
from bough.engine.port import EngineError
from bough.ids import EndpointId

MAX_SOCKET_PATH_BYTES = 107  # bytes; the kernel's limit, and Postgres refuses to start over it
SOCKET_NAME = ".s.PGSQL.5432"

_GET_FLAGS, _SET_FLAGS, _TOP_FOLDER = 0x80086601, 0x40086602, 0x00020000  # linux/fs.h


class Folders:
    def __init__(self, settings: Settings) -> None:
        self.home = settings.home
        self.cache = settings.cache
        self.sockets = settings.sockets
        self.mount_namespace = MountNamespace.from_settings(settings)  # of computes
        self.image = Image.load(settings.home)
        place = self.image.mount_point if self.image else settings.home
        self.volumes = place / "volumes"
        self.templates = place / "templates"
        # Postgres writes slowly where its WAL is on btrfs, so that is kept outside the image.
        self.pg_wal = settings.home / "pg_wal" if self.image else None  # faster than in the image: ARCHITECTURE.md
        self.wal_archives = settings.home / "wal"  # archived WAL, where `pg_wal` is too
        self.spools = settings.home / "spool"  # WAL that is being replayed
        self.runs = settings.home / "run"
        self.uids = settings.home / "uids"
        self.logs = settings.logs / "computes"

    def ensure(self) -> None:
        passage = 0o711 if is_root() else 0o700
        if is_root():
            _ensure_folder(self.sockets.parent, passage)
            _ensure_folder(self.sockets.parent / "uids", 0o700)
        _ensure_folder(self.home, passage)
        self._ensure_storage()
        for folder in (self.volumes, self.templates, self.wal_archives, self.spools, self.sockets):
            _ensure_folder(folder, passage)
        if self.pg_wal is not None:
            _ensure_folder(self.pg_wal, passage)
        _spread(self.volumes)
        for folder in (self.runs, self.uids, self.logs.parent, self.logs):
            _ensure_folder(folder, 0o700)
        _check_ours(self.sockets)
        if is_root():
            _close(self.home / FILE_NAME)
            for leaf in (self.home, self.cache, self.sockets):
                check_traversable(leaf)

    def _ensure_storage(self) -> None:
        """First of all: a folder made where the image belongs would be a second, empty store."""
        if self.image is None:
            return
        self.image.ensure_mounted()
        if self.image.is_unfinished:
            self.image.finish_setup()
            self.image = Image.load(self.home)

    def check_storage(self) -> None:
        """The image may be unmounted under us at any time. Without one there is nothing to check."""
        if self.image is not None:
            self.image.check_mounted()

    def socket_folder(self, endpoint: EndpointId) -> Path:
        folder = self.sockets / endpoint
        check_socket_path(folder)
        return folder

    def replica_socket_folder(self, endpoint: EndpointId) -> Path:
        """Where read replicas find the socket of the endpoint's compute; no endpoint's name has a dot."""
        return self.sockets / f"{endpoint}.side"

    def log_file(self, endpoint: EndpointId) -> Path:
        return self.logs / f"{endpoint}.log"


def check_socket_path(folder: Path) -> None:
    """A socket in the folder has a path that Postgres takes."""
    if len(os.fsencode(folder / SOCKET_NAME)) > MAX_SOCKET_PATH_BYTES:
        raise EngineError(
            f"The socket folder {folder} is longer than Postgres allows: set XDG_RUNTIME_DIR or TMPDIR "
            "to a shorter path and restart.",
            transient=False,
        )


def check_traversable(path: Path) -> None:
    """Name the folder that computes, which run under other users, could not pass."""
    for folder in reversed([path, *path.parents]):
        if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
            raise EngineError(
                f"Computes run under users of their own and cannot pass {folder}: run `chmod o+x {folder}`, "
                f"or choose another place than {path}.",
                transient=False,
            )


def _close(file: Path) -> None:
    """Settings may hold a password, and everyone can pass the home."""
    if file.exists():
        file.chmod(stat.S_IMODE(file.stat().st_mode) & 0o700)


def _check_ours(path: Path) -> None:
    """A temporary folder's name can be guessed, and taken by somebody before us."""
    seen = path.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise EngineError(f"The socket folder {path} belongs to somebody else: remove it.", transient=False)


def _spread(folder: Path) -> None:
    """Tell ext4 that what is inside are trees of their own, to be laid out apart.

    Otherwise it looks for room among the files just deleted, and a clone takes several times as long.
    Other file systems do not know the flag, and need none.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = array("i", [0])
        fcntl.ioctl(descriptor, _GET_FLAGS, flags)
        flags[0] |= _TOP_FOLDER
        fcntl.ioctl(descriptor, _SET_FLAGS, flags)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _ensure_folder(path: Path, mode: int) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=mode)
        if stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)
    except OSError as error:
        raise EngineError(
            f"The folder {path} cannot be made or used: {error.strerror}. Mend that, or choose another home.",
            transient=False,
        ) from error
