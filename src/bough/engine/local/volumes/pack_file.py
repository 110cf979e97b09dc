"""A pack: a data directory and its WAL in one compressed tar file, with owners and modes.

Its members are `data/…` and, where the WAL is outside the data directory, `wal/…`. The packed files belong to a tenant,
so names are looked up in open folders and no link is followed; anything but files, folders and links is left out, as in
a clone. Only the platform has access to the pack, and the folder it is extracted to is closed to its owner until it is
complete.
"""

import gzip
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from bough.engine.local.tenant_file_checks import MAX_FOLDER_ENTRIES, check_depth
from bough.engine.local.tenant_files import FOLDER_FLAGS, open_folder, open_regular_file, scan_entries

_LEVEL = 1
_CHUNK_BYTES = 1024 * 1024
_SYNC_BYTES = 16 * _CHUNK_BYTES  # written between two syncs
_TAR_OPTIONS: Any = {
    "format": tarfile.GNU_FORMAT,
    "encoding": "utf-8",
    "errors": "surrogateescape",
}  # names of any bytes
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

SpaceCheck = Callable[[], None]  # called regularly; raises when the disk has too little space left


class PackTooLarge(Exception):
    """The pack would exceed its limit."""


class PackCorrupted(Exception):
    """The pack cannot be read to its end."""


def write_pack(trees: dict[str, Path], file: Path, *, limit: int, check: SpaceCheck) -> None:
    """Write the trees to the file under the given names, and sync it. Raises PackTooLarge above the limit."""
    descriptor = os.open(file, _CREATE_FLAGS, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        writer = _Writer(raw, limit, check)
        with _compressed(writer) as packed, _writing(packed) as tar:
            for name, folder in trees.items():
                with open_folder(folder) as tree:
                    _add(tar, name, tree, 0)
        raw.flush()
        os.fsync(descriptor)
    _check_readable(file)


def extract_pack(file: Path, trees: dict[str, Path], check: SpaceCheck) -> None:
    """Extract the pack into empty folders of the platform, which belong to their owner at the end."""
    roots: dict[str, tarfile.TarInfo] = {}
    with _open_pack(file) as tar:
        for info in tar:
            tree, _, relative = info.name.partition("/")
            if not relative:
                roots[tree] = info
                continue
            with _open_parent(trees[tree], relative) as (folder, name):
                _extract(tar, info, name, folder, check)
    for tree, info in roots.items():
        with open_folder(trees[tree]) as folder:
            os.fchown(folder, info.uid, info.gid)
            os.fchmod(folder, info.mode)


class _Writer:
    """Syncs while it writes: syncing everything at the end would block other users of the disk."""

    def __init__(self, raw: IO[bytes], limit: int, check: SpaceCheck) -> None:
        self._raw = raw
        self._limit = limit
        self._check = check
        self._written = self._unsynced = 0

    def write(self, chunk: bytes) -> int:
        self._raw.write(chunk)
        self._written += len(chunk)
        self._unsynced += len(chunk)
        if self._written > self._limit:
            raise PackTooLarge
        if self._unsynced >= _SYNC_BYTES:
            self._check()
            self._raw.flush()
            os.fdatasync(self._raw.fileno())
            self._unsynced = 0
        return len(chunk)

    def flush(self) -> None:
        self._raw.flush()


def _compressed(writer: _Writer) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", fileobj=cast(IO[bytes], writer), mode="wb", compresslevel=_LEVEL, mtime=0)


def _writing(packed: gzip.GzipFile) -> tarfile.TarFile:
    return tarfile.TarFile(fileobj=packed, mode="w", copybufsize=_CHUNK_BYTES, **_TAR_OPTIONS)


@contextmanager
def _open_pack(file: Path) -> Iterator[tarfile.TarFile]:
    """Open a pack and read it to its last byte, where the checksum is."""
    try:
        with (
            gzip.open(file) as packed,
            tarfile.open(fileobj=packed, mode="r|", bufsize=_CHUNK_BYTES, **_TAR_OPTIONS) as tar,
        ):
            yield tar
            while packed.read(_CHUNK_BYTES):
                pass
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise PackCorrupted from error


def _add(tar: tarfile.TarFile, name: str, folder: int, depth: int) -> None:
    check_depth(depth)
    tar.addfile(_info(name, os.fstat(folder), tarfile.DIRTYPE))
    for entry in sorted(scan_entries(folder, MAX_FOLDER_ENTRIES), key=lambda entry: entry.name):
        path = f"{name}/{entry.name}"
        if entry.is_file(follow_symlinks=False):
            with open_regular_file(entry.name, folder) as file:
                status = os.fstat(file)
                info = _info(path, status, tarfile.REGTYPE)
                info.size = status.st_size
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL)
                with os.fdopen(os.dup(file), "rb", buffering=0) as reading:
                    tar.addfile(info, cast(IO[bytes], reading))
        elif entry.is_dir(follow_symlinks=False):
            with open_folder(entry.name, folder) as subfolder:
                _add(tar, path, subfolder, depth + 1)
        elif entry.is_symlink():
            info = _info(path, entry.stat(follow_symlinks=False), tarfile.SYMTYPE)
            info.linkname = os.readlink(entry.name, dir_fd=folder)
            tar.addfile(info)


def _info(name: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = kind, stat.S_IMODE(status.st_mode), status.st_mtime
    info.uid, info.gid = status.st_uid, status.st_gid
    return info


def _extract(tar: tarfile.TarFile, info: tarfile.TarInfo, name: str, folder: int, check: SpaceCheck) -> None:
    if info.isdir():
        os.mkdir(name, 0o700, dir_fd=folder)
        with open_folder(name, folder) as created:
            _set_owner_and_mode(created, info)
    elif info.issym():
        os.symlink(info.linkname, name, dir_fd=folder)
        os.chown(name, info.uid, info.gid, dir_fd=folder, follow_symlinks=False)
    else:
        check()
        reading = tar.extractfile(info)
        assert reading is not None
        with os.fdopen(os.open(name, _CREATE_FLAGS, 0o600, dir_fd=folder), "wb", buffering=0) as writing:
            _set_owner_and_mode(writing.fileno(), info)
            _copy(reading, writing, check)


def _copy(reading: IO[bytes], writing: IO[bytes], check: SpaceCheck) -> None:
    unsynced = 0
    while chunk := reading.read(_CHUNK_BYTES):
        writing.write(chunk)
        unsynced += len(chunk)
        if unsynced >= _SYNC_BYTES:
            check()
            os.fdatasync(writing.fileno())
            unsynced = 0


def _set_owner_and_mode(file: int, info: tarfile.TarInfo) -> None:
    os.fchown(file, info.uid, info.gid)
    os.fchmod(file, info.mode)


@contextmanager
def _open_parent(top: Path, relative: str) -> Iterator[tuple[int, str]]:
    """Yield the open folder that contains a member of the pack, and the member's name."""
    *folders, name = relative.split("/")
    check_depth(len(folders))
    opened = [os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for folder in folders:
            opened.append(os.open(folder, FOLDER_FLAGS, dir_fd=opened[-1]))
        yield opened[-1], name
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _check_readable(file: Path) -> None:
    """Read the whole pack, because the data it was made of is removed next."""
    with _open_pack(file) as tar:
        for _ in tar:
            pass
