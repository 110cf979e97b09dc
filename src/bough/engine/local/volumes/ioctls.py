"""The Linux ioctls that share blocks between files, manage btrfs subvolumes and list a file's extents.

All release the GIL. `fcntl.ioctl` does that only for arguments below 1024 bytes, so the larger ones go through the C
library. Failures are OSErrors: EXDEV between two file systems, EOPNOTSUPP or ENOTTY where the call is not supported.
"""

import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_FICLONE = 0x40049409
_FICLONERANGE = 0x4020940D
_SUBVOLUME_CREATE = 0x5000940E
_SUBVOLUME_DESTROY = 0x5000940F
_SNAPSHOT_CREATE = 0x50009417
_FIEMAP = 0xC020660B

_CLONE_RANGE = struct.Struct("=qQQQ")  # from, offset, length, offset in the target
_SUBVOLUME = struct.Struct("=q4088s")  # descriptor, name
_SNAPSHOT = struct.Struct("=q48x4040s")  # source, transaction and flags and quotas, name
_EXTENT_MAP = struct.Struct("=QQIIII")  # start, length, flags, mapped, capacity, reserved
_EXTENT = struct.Struct("=QQQ16xI12x")  # offset in the file, offset on disk, length, flags

_EXTENTS_PER_CALL = 256
_SYNC_FIRST = 0x1
_LAST = 0x1
_SHARED = 0x2000
_MAX_LENGTH = 2**64 - 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class Extent:
    length: int
    is_shared: bool


def clone_whole(source: int, target: int) -> None:
    """Make the open file `target` share all blocks of `source`."""
    fcntl.ioctl(target, _FICLONE, source)


def clone_range(source: int, target: int, offset: int, length: int) -> None:
    """Share a range at the same offset in both files; length 0 means up to the end.

    Raises EINVAL if the source ends before the range does.
    """
    fcntl.ioctl(target, _FICLONERANGE, _CLONE_RANGE.pack(source, offset, length, offset))


def create_subvolume(folder: int, name: str) -> None:
    _call(folder, _SUBVOLUME_CREATE, _SUBVOLUME.pack(0, os.fsencode(name)))


def create_snapshot(source: int, folder: int, name: str) -> None:
    """Create a writable snapshot of the subvolume `source`. Raises EINVAL if it is an ordinary folder."""
    _call(folder, _SNAPSHOT_CREATE, _SNAPSHOT.pack(source, os.fsencode(name)))


def destroy_subvolume(folder: int, name: str) -> None:
    """Raise EINVAL for an ordinary folder, EPERM for ordinary users, ENOTEMPTY if it contains a subvolume."""
    _call(folder, _SUBVOLUME_DESTROY, _SUBVOLUME.pack(0, os.fsencode(name)))


def iterate_extents(file: int) -> Iterator[Extent]:
    """Yield the extents of an open file, after syncing it."""
    start, flags = 0, _SYNC_FIRST
    while True:
        mapped, answer = _map(file, start, _MAX_LENGTH - start, flags)
        for number in range(mapped):
            at, _, length, flags = _extent(answer, number)
            yield Extent(length, bool(flags & _SHARED))
            start = at + length
        if mapped == 0 or flags & _LAST:
            return
        flags = 0


def iterate_disk_ranges(file: int, start: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length on the device of everything that a range of an open file occupies."""
    end = start + length
    while start < end:
        mapped, answer = _map(file, start, end - start, 0)
        for number in range(mapped):
            at, on_disk, size, _ = _extent(answer, number)
            before = max(start - at, 0)
            at, on_disk, size = at + before, on_disk + before, size - before
            size = min(size, end - at)
            yield on_disk, size
            start = at + size
        if mapped == 0:
            return


def find_extents_end(file: int, start: int, length: int) -> int:
    """Return where the first few extents after `start` end, at most `length` bytes on."""
    mapped, answer = _map(file, start, length, 0)
    if mapped < _EXTENTS_PER_CALL:
        return start + length
    at, _, size, _ = _extent(answer, mapped - 1)
    return min(at + size, start + length)


def _map(file: int, start: int, length: int, flags: int) -> tuple[int, bytes]:
    request = _EXTENT_MAP.pack(start, length, flags, 0, _EXTENTS_PER_CALL, 0)
    answer = _call(file, _FIEMAP, request + bytes(_EXTENTS_PER_CALL * _EXTENT.size))
    return _EXTENT_MAP.unpack_from(answer)[3], answer


def _extent(answer: bytes, number: int) -> tuple[int, int, int, int]:
    at, on_disk, length, flags = _EXTENT.unpack_from(answer, _EXTENT_MAP.size + number * _EXTENT.size)
    return at, on_disk, length, flags


def _call(file: int, code: int, argument: bytes) -> bytes:
    buffer = ctypes.create_string_buffer(argument, len(argument))
    if _libc.ioctl(file, code, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return buffer.raw
