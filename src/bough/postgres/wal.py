"""Positions in the WAL, and names of its segments: which files hold a stretch of it. Pure."""

import struct
from collections.abc import Iterable

from bough.postgres.conf import SEGMENT_MB

_SEGMENT = SEGMENT_MB * 1024**2
_PER_FILE_GROUP = 2**32 // _SEGMENT  # the middle part of a name counts 4 GB each
_NAME_LENGTH = 24
_MOST = 262_144  # segments of one copy: 1 TB of WAL
_HEAD = struct.Struct("<HHIQ")  # of a page: a magic number, flags, its timeline, its position
HEAD_BYTES = _HEAD.size


def segment_name(timeline: int, lsn: int) -> str:
    """The file that holds the byte at `lsn`."""
    return _name(timeline, lsn // _SEGMENT)


def segment_names(first: str, last: str) -> list[str]:
    """Every file from the first to the last, which are of one timeline.

    The two names come from a server that a tenant's code may have replaced, so they are not trusted.
    """
    if not (_is_segment(first) and _is_segment(last) and first[:8] == last[:8]):
        raise ValueError("not two segments of one timeline")
    timeline = int(first[:8], 16)
    if _number(last) - _number(first) >= _MOST:
        raise ValueError("too many segments")
    return [_name(timeline, number) for number in range(_number(first), _number(last) + 1)]


def next_segment(name: str) -> str:
    return _name(int(name[:8], 16), _number(name) + 1)


def is_begun(name: str, head: bytes) -> bool:
    """Whether a file of this name, which begins with `head`, holds its segment.

    One that is kept for later use has its name already, and still what was in it before.
    """
    return len(head) >= HEAD_BYTES and _HEAD.unpack_from(head)[3] == _number(name) * _SEGMENT


def needed_from(first: str, present: Iterable[str]) -> list[str]:
    """Of the files in a `pg_wal`, those a server reads that starts at the segment `first`."""
    return sorted(name for name in present if _is_history(name) or (_is_segment(name) and name[8:] >= first[8:]))


def _is_segment(name: str) -> bool:
    return len(name) == _NAME_LENGTH and all(digit in "0123456789ABCDEF" for digit in name)


def _is_history(name: str) -> bool:
    return name.endswith(".history") and len(name) == len("00000002.history")


def _name(timeline: int, number: int) -> str:
    return f"{timeline:08X}{number // _PER_FILE_GROUP:08X}{number % _PER_FILE_GROUP:08X}"


def _number(name: str) -> int:
    return int(name[8:16], 16) * _PER_FILE_GROUP + int(name[16:24], 16)
