"""Positions in the WAL, and names of its segments: which files hold a stretch of it. Pure."""

import struct
from collections.abc import Iterable

SEGMENT_MB = 4  # WAL segment size: see ARCHITECTURE.md, "Decisions"
SEGMENT_BYTES = SEGMENT_MB * 1024**2
_PER_FILE_GROUP = 2**32 // SEGMENT_BYTES  # the middle part of a name counts 4 GB each
_NAME_LENGTH = 24
_MOST = 262_144  # segments of one copy: 1 TB of WAL
_HEAD = struct.Struct("<HHIQ")  # of a page: a magic number, flags, its timeline, its position
PAGE_HEADER_BYTES = _HEAD.size
_PAGE = 8192
_SHORT_HEAD, _LONG_HEAD = 24, 40  # of a page, and of the first in a segment
_CHECKPOINT_RECORD = 120  # bytes, as it is laid out


def segment_name(timeline: int, lsn: int) -> str:
    """The file that holds the byte at `lsn`."""
    return segment_name_from_number(timeline, lsn // SEGMENT_BYTES)


def segment_names(first: str, last: str) -> list[str]:
    """Every file from the first to the last, which are of one timeline.

    The two names come from a server that a tenant's code may have replaced, so they are not trusted.
    """
    if not (is_segment(first) and is_segment(last) and first[:8] == last[:8]):
        raise ValueError("not two segments of one timeline")
    timeline = timeline_of(first)
    if segment_number(last) - segment_number(first) >= _MOST:
        raise ValueError("too many segments")
    return [
        segment_name_from_number(timeline, number) for number in range(segment_number(first), segment_number(last) + 1)
    ]


def next_segment(name: str) -> str:
    return segment_name_from_number(timeline_of(name), segment_number(name) + 1)


def is_initialized(name: str, head: bytes) -> bool:
    """Whether a file of this name, which begins with `head`, holds its segment.

    One that is kept for later use has its name already, and still what was in it before.
    """
    return len(head) >= PAGE_HEADER_BYTES and _HEAD.unpack_from(head)[3] == segment_number(name) * SEGMENT_BYTES


def select_needed_from(first: str, present: Iterable[str]) -> list[str]:
    """Of the files in a `pg_wal`, those a server reads that starts at the segment `first`."""
    return sorted(name for name in present if is_history_file(name) or (is_segment(name) and name[8:] >= first[8:]))


def is_segment(name: str) -> bool:
    return len(name) == _NAME_LENGTH and all(digit in "0123456789ABCDEF" for digit in name)


def is_history_file(name: str) -> bool:
    return name.endswith(".history") and len(name) == len("00000002.history")


def timeline_of(name: str) -> int:
    return int(name[:8], 16)


def segment_name_from_number(timeline: int, number: int) -> str:
    """The name of a segment that is the so-manieth from the beginning, on a timeline."""
    return f"{timeline:08X}{number // _PER_FILE_GROUP:08X}{number % _PER_FILE_GROUP:08X}"


def segment_number(name: str) -> int:
    return int(name[8:16], 16) * _PER_FILE_GROUP + int(name[16:24], 16)


def segment_number_at(lsn: int) -> int:
    """Which segment holds the byte at `lsn`, counted from the beginning."""
    return lsn // SEGMENT_BYTES


def checkpoint_end(lsn: int) -> int:
    """Where the record of a checkpoint ends that begins at `lsn`: the same in every version from 14 to 18."""
    end, page = lsn + _CHECKPOINT_RECORD, (lsn // _PAGE + 1) * _PAGE
    if end <= page:
        return end
    return end + (_LONG_HEAD if page % SEGMENT_BYTES == 0 else _SHORT_HEAD)
