"""The end of a log, over the pieces it was cut into, and what is added to it."""

import os
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from bough import log_rotation

MAX_BYTES = 64 * 1024 * 1024  # of the end; a compute can make its log one line without end
POLL_INTERVAL = 0.2  # seconds between looks at a log that is followed


def read_last_lines(file: BinaryIO, log: Path, count: int) -> list[str]:
    """The last lines of the open log; it is left where they end. Reads no more of a long one than it must."""
    end = file.seek(0, os.SEEK_END)
    blocks: list[bytes] = []
    line_ends = held = 0
    for block in chain(
        log_rotation.read_blocks_backwards(file), log_rotation.read_backwards(log_rotation.list_rotated(log))
    ):
        if line_ends > count or not count or held > MAX_BYTES:
            break
        blocks.append(block)
        held += len(block)
        line_ends += block.count(b"\n")
    file.seek(end)
    lines = b"".join(reversed(blocks)).removesuffix(b"\n").split(b"\n") if blocks else []
    return [_text(line) for line in lines[-count:]]


def follow(file: BinaryIO, log: Path) -> Iterator[str]:
    """Each new line, for ever; goes on where the log goes on when it is cut or replaced."""
    unfinished = b""
    while True:
        piece = file.readline()
        unfinished += piece
        if not piece and _was_cut(file, log):
            unfinished += _left_unread(file, log)
            file = log.open("rb")
        elif not piece:
            time.sleep(POLL_INTERVAL)
        *lines, unfinished = unfinished.split(b"\n")
        yield from map(_text, lines)


def _was_cut(file: BinaryIO, log: Path) -> bool:
    try:
        return not _is_same(file, log) or log.stat().st_size < file.tell()
    except FileNotFoundError:
        return False


def _is_same(file: BinaryIO, log: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), log.stat())


def _left_unread(file: BinaryIO, log: Path) -> bytes:
    """What was written after the last look, and is in the newest piece by now."""
    try:
        with log_rotation.newest_rotated_path(log).open("rb") as piece:
            piece.seek(file.tell())
            return piece.read() if _is_same(file, log) else b""
    except FileNotFoundError:
        return b""


def _text(line: bytes) -> str:
    return line.rstrip(b"\r\n").decode(errors="replace")
