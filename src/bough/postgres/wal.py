"""WAL positions and segment names: which files contain a range of WAL."""

import struct
from collections.abc import Iterable

SEGMENT_MB = 4  # WAL segment size
SEGMENT_BYTES = SEGMENT_MB * 1024**2
_PER_FILE_GROUP = 2**32 // SEGMENT_BYTES  # the middle part of a name counts groups of 4 GB
_NAME_LENGTH = 24
_MAX_SEGMENTS = 262_144  # in one copy: 1 TB of WAL
_HEAD = struct.Struct("<HHIQ")  # page header: magic number, flags, timeline, position
PAGE_HEADER_BYTES = _HEAD.size
_PAGE = 8192
_SHORT_HEAD, _LONG_HEAD = 24, 40  # header size of a page, and of the first page of a segment
_CHECKPOINT_RECORD = 120  # size in bytes


def segment_name(timeline: int, lsn: int) -> str:
    """Return the file that contains the byte at `lsn`."""
    return segment_name_from_number(timeline, lsn // SEGMENT_BYTES)


def segment_names(first: str, last: str) -> list[str]:
    """Return all files from the first to the last, which must have the same timeline.

    The names come from a server in which a tenant's code may run, so they are not trusted.
    """
    if not (is_segment(first) and is_segment(last) and first[:8] == last[:8]):
        raise ValueError("the names are not two segments of one timeline")
    timeline = timeline_of(first)
    if segment_number(last) - segment_number(first) >= _MAX_SEGMENTS:
        raise ValueError("there are too many segments")
    return [
        segment_name_from_number(timeline, number) for number in range(segment_number(first), segment_number(last) + 1)
    ]


def next_segment(name: str) -> str:
    return segment_name_from_number(timeline_of(name), segment_number(name) + 1)


def is_initialized(name: str, head: bytes) -> bool:
    """Return whether the file with this name, which starts with `head`, contains its own segment.

    A recycled file has its new name already but still the old contents.
    """
    return len(head) >= PAGE_HEADER_BYTES and _HEAD.unpack_from(head)[3] == segment_number(name) * SEGMENT_BYTES


def select_needed_from(first: str, present: Iterable[str]) -> list[str]:
    """Return the files of `pg_wal` that a server reads when it starts at the segment `first`."""
    return sorted(name for name in present if is_history_file(name) or (is_segment(name) and name[8:] >= first[8:]))


def is_segment(name: str) -> bool:
    return len(name) == _NAME_LENGTH and all(digit in "0123456789ABCDEF" for digit in name)


def is_history_file(name: str) -> bool:
    return name.endswith(".history") and len(name) == len("00000002.history")


def timeline_of(name: str) -> int:
    return int(name[:8], 16)


def segment_name_from_number(timeline: int, number: int) -> str:
    """Return the name of the segment with this number on a timeline."""
    return f"{timeline:08X}{number // _PER_FILE_GROUP:08X}{number % _PER_FILE_GROUP:08X}"


def segment_number(name: str) -> int:
    return int(name[8:16], 16) * _PER_FILE_GROUP + int(name[16:24], 16)


def segment_number_at(lsn: int) -> int:
    """Return the number of the segment that contains the byte at `lsn`."""
    return lsn // SEGMENT_BYTES


def checkpoint_end(lsn: int) -> int:
    """Return the end of a checkpoint record that starts at `lsn`. The size is the same in versions 14 to 18."""
    end, page = lsn + _CHECKPOINT_RECORD, (lsn // _PAGE + 1) * _PAGE
    if end <= page:
        return end
    return end + (_LONG_HEAD if page % SEGMENT_BYTES == 0 else _SHORT_HEAD)
