"""The folders of the engine and their permissions.

As root, computes run under other users. Every folder on the path to their files must be traversable, but only the
innermost may be readable.
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

MAX_SOCKET_PATH_BYTES = 107  # the kernel's limit, above which Postgres does not start
SOCKET_NAME = ".s.PGSQL.5432"

_GET_FLAGS, _SET_FLAGS, _TOPDIR_FLAG = 0x80086601, 0x40086602, 0x00020000  # linux/fs.h


class Folders:
    def __init__(self, settings: Settings) -> None:
        self.home = settings.home
        self.cache = settings.cache
        self.sockets = settings.sockets
        self.mount_namespace = MountNamespace.from_settings(settings)
        self.image = Image.load(settings.home)
        root = self.image.mount_point if self.image else settings.home
        self.volumes = root / "volumes"
        self.templates = root / "templates"
        # Postgres writes slowly with its WAL on btrfs, so WAL is kept outside the image.
        self.pg_wal = settings.home / "pg_wal" if self.image else None
        self.wal_archives = settings.home / "wal"  # on the same file system as `pg_wal`
        self.spools = settings.home / "spool"  # WAL of recoveries
        self.runs = settings.home / "run"
        self.uids = settings.home / "uids"
        self.logs = settings.logs / "computes"
        self.audit = settings.compute_audit

    def ensure(self) -> None:
        traversable_mode = 0o711 if is_root() else 0o700
        if is_root():
            _ensure_folder(self.sockets.parent, traversable_mode)
            _ensure_folder(self.sockets.parent / "uids", 0o700)
        _ensure_folder(self.home, traversable_mode)
        self._ensure_storage()
        for folder in (self.volumes, self.templates, self.wal_archives, self.spools, self.sockets):
            _ensure_folder(folder, traversable_mode)
        _ensure_folder(self.audit, traversable_mode)
        if self.pg_wal is not None:
            _ensure_folder(self.pg_wal, traversable_mode)
        _set_topdir_flag(self.volumes)
        for folder in (self.runs, self.uids, self.logs.parent, self.logs):
            _ensure_folder(folder, 0o700)
        _check_owner(self.sockets)
        if is_root():
            _make_private(self.home / FILE_NAME)
            for path in (self.home, self.cache, self.sockets):
                check_traversable(path)

    def _ensure_storage(self) -> None:
        """Mount the image first: a folder created at its mount point would look like a home without volumes."""
        if self.image is None:
            return
        self.image.ensure_mounted()
        if self.image.is_unfinished:
            self.image.finish_setup()
            self.image = Image.load(self.home)

    def check_storage(self) -> None:
        """Check that the image, if there is one, is still mounted."""
        if self.image is not None:
            self.image.check_mounted()

    def socket_folder(self, endpoint: EndpointId) -> Path:
        folder = self.sockets / endpoint
        check_socket_path(folder)
        return folder

    def replica_socket_folder(self, endpoint: EndpointId) -> Path:
        """Return where read replicas find the socket of the endpoint's compute; no endpoint id contains a dot."""
        return self.sockets / f"{endpoint}.side"

    def log_file(self, endpoint: EndpointId) -> Path:
        return self.logs / f"{endpoint}.log"

    def audit_folder(self, endpoint: EndpointId) -> Path:
        """Return the folder of the files that the server of an audited compute writes."""
        return self.audit / endpoint

    def audit_log(self, endpoint: EndpointId) -> Path:
        """Return the log of audited statements, which only the platform can write."""
        return self.logs / f"{endpoint}.audit"


def check_socket_path(folder: Path) -> None:
    """Check that a socket in the folder has a path that Postgres accepts."""
    if len(os.fsencode(folder / SOCKET_NAME)) > MAX_SOCKET_PATH_BYTES:
        raise EngineError(
            f"The path of the socket folder {folder} is longer than Postgres allows: set XDG_RUNTIME_DIR or TMPDIR "
            "to a shorter path and restart.",
            transient=False,
        )


def check_traversable(path: Path) -> None:
    """Raise an error that names the folder which the users of computes cannot traverse."""
    for folder in reversed([path, *path.parents]):
        if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
            raise EngineError(
                f"Computes run under separate users, which cannot traverse {folder}: run `chmod o+x {folder}`, "
                f"or choose another folder than {path}.",
                transient=False,
            )


def _make_private(file: Path) -> None:
    """The settings may contain a password, and the home is traversable for all users."""
    if file.exists():
        file.chmod(stat.S_IMODE(file.stat().st_mode) & 0o700)


def _check_owner(path: Path) -> None:
    """The name of a temporary folder is predictable, so another user may have created it."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise EngineError(f"The socket folder {path} belongs to another user: remove it.", transient=False)


def _set_topdir_flag(folder: Path) -> None:
    """Make ext4 place the folders in this one far apart.

    Otherwise it looks for free blocks among recently deleted files, and a clone takes several times as long. Other file
    systems do not know the flag and do not need it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = array("i", [0])
        fcntl.ioctl(descriptor, _GET_FLAGS, flags)
        flags[0] |= _TOPDIR_FLAG
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
            f"The folder {path} cannot be created or used: {error.strerror}. Fix that, or choose another home.",
            transient=False,
        ) from error
