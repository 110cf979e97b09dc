"""A pack: a data folder and its WAL in one compressed file, with owners and modes.

It is a tar of our own making, `data/…` and, where the WAL is apart, `wal/…`. What is packed belongs to a tenant, so
names are looked up in open folders and no link is followed; what is neither file, folder nor link is left out, as in
a clone. The pack itself is ours alone, and what it is unpacked into is closed to its owner until it is whole.
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

from bough.engine.local.tenant_files import (
    FOLDER_FLAGS,
    MAX_FOLDER_ENTRIES,
    check_depth,
    open_folder,
    open_regular_file,
    scan_entries,
)

_LEVEL = 1
_PIECE = 1024 * 1024
_STRETCH = 16 * _PIECE  # that is brought to the disk before there is more
_NAMES: Any = {"format": tarfile.GNU_FORMAT, "encoding": "utf-8", "errors": "surrogateescape"}  # whatever bytes
_OURS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

SpaceCheck = Callable[[], None]  # asked now and then; raises when there is no room for more


class PackTooLarge(Exception):
    """The pack would take more than it is allowed to."""


class PackCorrupted(Exception):
    """The pack is not what was written."""


def write_pack(trees: dict[str, Path], file: Path, *, limit: int, check: SpaceCheck) -> None:
    """These trees become the file, synced, under the names they are given by. TooLarge when it passes the limit."""
    descriptor = os.open(file, _OURS, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        writer = _Writer(raw, limit, check)
        with _compressed(writer) as packed, _writing(packed) as tar:
            for name, folder in trees.items():
                with open_folder(folder) as here:
                    _add(tar, name, here, 0)
        raw.flush()
        os.fsync(descriptor)
    _check_readable(file)


def extract_pack(file: Path, trees: dict[str, Path], check: SpaceCheck) -> None:
    """The other way round, into folders that are there, empty and ours; at the end they are their owner's."""
    owners: dict[str, tarfile.TarInfo] = {}
    with _opened(file) as tar:
        for info in tar:
            tree, _, inner = info.name.partition("/")
            if not inner:
                owners[tree] = info
                continue
            with _parent(trees[tree], inner) as (folder, name):
                _extract(tar, info, name, folder, check)
    for tree, info in owners.items():
        with open_folder(trees[tree]) as folder:
            os.fchown(folder, info.uid, info.gid)
            os.fchmod(folder, info.mode)


class _Writer:
    """Whatever is written reaches the disk in stretches: all of it at the end would keep others waiting."""

    def __init__(self, raw: IO[bytes], limit: int, check: SpaceCheck) -> None:
        self._raw = raw
        self._limit = limit
        self._check = check
        self._written = self._unsynced = 0

    def write(self, piece: bytes) -> int:
        self._raw.write(piece)
        self._written += len(piece)
        self._unsynced += len(piece)
        if self._written > self._limit:
            raise PackTooLarge
        if self._unsynced >= _STRETCH:
            self._check()
            self._raw.flush()
            os.fdatasync(self._raw.fileno())
            self._unsynced = 0
        return len(piece)

    def flush(self) -> None:
        self._raw.flush()


def _compressed(writer: _Writer) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", fileobj=cast(IO[bytes], writer), mode="wb", compresslevel=_LEVEL, mtime=0)


def _writing(packed: gzip.GzipFile) -> tarfile.TarFile:
    return tarfile.TarFile(fileobj=packed, mode="w", copybufsize=_PIECE, **_NAMES)


@contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    """A pack to be read to its last byte, where it says whether all of it is as it was written."""
    try:
        with gzip.open(file) as packed, tarfile.open(fileobj=packed, mode="r|", bufsize=_PIECE, **_NAMES) as tar:
            yield tar
            while packed.read(_PIECE):
                pass
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise PackCorrupted from error


def _add(tar: tarfile.TarFile, name: str, folder: int, depth: int) -> None:
    check_depth(depth)
    tar.addfile(_info(name, os.fstat(folder), tarfile.DIRTYPE))
    for entry in sorted(scan_entries(folder, MAX_FOLDER_ENTRIES), key=lambda entry: entry.name):
        inner = f"{name}/{entry.name}"
        if entry.is_file(follow_symlinks=False):
            with open_regular_file(entry.name, folder) as file:
                seen = os.fstat(file)
                info = _info(inner, seen, tarfile.REGTYPE)
                info.size = seen.st_size
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_SEQUENTIAL)
                with os.fdopen(os.dup(file), "rb", buffering=0) as reading:
                    tar.addfile(info, cast(IO[bytes], reading))
        elif entry.is_dir(follow_symlinks=False):
            with open_folder(entry.name, folder) as below:
                _add(tar, inner, below, depth + 1)
        elif entry.is_symlink():
            info = _info(inner, entry.stat(follow_symlinks=False), tarfile.SYMTYPE)
            info.linkname = os.readlink(entry.name, dir_fd=folder)
            tar.addfile(info)


def _info(name: str, seen: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = kind, stat.S_IMODE(seen.st_mode), seen.st_mtime
    info.uid, info.gid = seen.st_uid, seen.st_gid
    return info


def _extract(tar: tarfile.TarFile, info: tarfile.TarInfo, name: str, folder: int, check: SpaceCheck) -> None:
    if info.isdir():
        os.mkdir(name, 0o700, dir_fd=folder)
        with open_folder(name, folder) as made:
            _own(made, info)
    elif info.issym():
        os.symlink(info.linkname, name, dir_fd=folder)
        os.chown(name, info.uid, info.gid, dir_fd=folder, follow_symlinks=False)
    else:
        check()
        reading = tar.extractfile(info)
        assert reading is not None
        with os.fdopen(os.open(name, _OURS, 0o600, dir_fd=folder), "wb", buffering=0) as writing:
            _own(writing.fileno(), info)
            _copy(reading, writing, check)


def _copy(reading: IO[bytes], writing: IO[bytes], check: SpaceCheck) -> None:
    unsynced = 0
    while piece := reading.read(_PIECE):
        writing.write(piece)
        unsynced += len(piece)
        if unsynced >= _STRETCH:
            check()
            os.fdatasync(writing.fileno())
            unsynced = 0


def _own(file: int, info: tarfile.TarInfo) -> None:
    os.fchown(file, info.uid, info.gid)
    os.fchmod(file, info.mode)


@contextmanager
def _parent(top: Path, inner: str) -> Iterator[tuple[int, str]]:
    """The open folder that a name of the pack is in, and its last part."""
    *folders, name = inner.split("/")
    check_depth(len(folders))
    held = [os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for each in folders:
            held.append(os.open(each, FOLDER_FLAGS, dir_fd=held[-1]))
        yield held[-1], name
    finally:
        for descriptor in held:
            os.close(descriptor)


def _check_readable(file: Path) -> None:
    """What was written can be read, to its last byte: the data it was made of is about to go."""
    with _opened(file) as tar:
        for _ in tar:
            pass
