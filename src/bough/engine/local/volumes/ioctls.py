"""The calls by which Linux shares blocks between files, keeps btrfs subvolumes and tells a file's extents.

All let other threads run meanwhile. `fcntl.ioctl` does so only for what is smaller than 1024 bytes,
so the larger ones go through the C library. What fails is an OSError: EXDEV between two file
systems, EOPNOTSUPP or ENOTTY where there is no such thing.
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
_EXTENT_MAP = struct.Struct("=QQIIII")  # start, length, flags, mapped, room, reserved
_EXTENT = struct.Struct("=QQQ16xI12x")  # where in the file, where on disk, length, flags

_EXTENTS_A_CALL = 256
_SYNC_FIRST = 0x1
_LAST = 0x1
_SHARED = 0x2000
_TO_THE_END = 2**64 - 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class Extent:
    length: int
    is_shared: bool


def clone_whole(source: int, target: int) -> None:
    """The open file `target` gets the blocks of `source`."""
    fcntl.ioctl(target, _FICLONE, source)


def clone_range(source: int, target: int, offset: int, length: int) -> None:
    """A range at the same place in both; length 0 is up to the end. EINVAL when the source has no such range."""
    fcntl.ioctl(target, _FICLONERANGE, _CLONE_RANGE.pack(source, offset, length, offset))


def create_subvolume(folder: int, name: str) -> None:
    _call(folder, _SUBVOLUME_CREATE, _SUBVOLUME.pack(0, os.fsencode(name)))


def create_snapshot(source: int, folder: int, name: str) -> None:
    """A writable snapshot of the subvolume `source`. EINVAL when it is a folder like any other."""
    _call(folder, _SNAPSHOT_CREATE, _SNAPSHOT.pack(source, os.fsencode(name)))


def destroy_subvolume(folder: int, name: str) -> None:
    """EINVAL when it is a folder like any other, EPERM for ordinary users, ENOTEMPTY when it holds another."""
    _call(folder, _SUBVOLUME_DESTROY, _SUBVOLUME.pack(0, os.fsencode(name)))


def extents(file: int) -> Iterator[Extent]:
    """Where an open file lies on disk, after what was written has got there."""
    start, flags = 0, _SYNC_FIRST
    while True:
        mapped, answer = _map(file, start, _TO_THE_END - start, flags)
        for number in range(mapped):
            at, _, length, flags = _extent(answer, number)
            yield Extent(length, bool(flags & _SHARED))
            start = at + length
        if mapped == 0 or flags & _LAST:
            return
        flags = 0


def end_of_extents(file: int, start: int, length: int) -> int:
    """How far from `start` the first few extents of an open file reach, at most `length` bytes on."""
    mapped, answer = _map(file, start, length, 0)
    if mapped < _EXTENTS_A_CALL:
        return start + length
    at, _, size, _ = _extent(answer, mapped - 1)
    return min(at + size, start + length)


def _map(file: int, start: int, length: int, flags: int) -> tuple[int, bytes]:
    asked = _EXTENT_MAP.pack(start, length, flags, 0, _EXTENTS_A_CALL, 0)
    answer = _call(file, _FIEMAP, asked + bytes(_EXTENTS_A_CALL * _EXTENT.size))
    return _EXTENT_MAP.unpack_from(answer)[3], answer


def _extent(answer: bytes, number: int) -> tuple[int, int, int, int]:
    at, on_disk, length, flags = _EXTENT.unpack_from(answer, _EXTENT_MAP.size + number * _EXTENT.size)
    return at, on_disk, length, flags


def _call(file: int, code: int, given: bytes) -> bytes:
    room = ctypes.create_string_buffer(given, len(given))
    if _libc.ioctl(file, code, room) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return room.raw
