"""Reads the last lines of a log, including its rotated files, and follows it."""

import os
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from bough import log_rotation

MAX_BYTES = 64 * 1024 * 1024  # read from the end at most; a compute can write a log that is one endless line
POLL_INTERVAL = 0.2  # seconds between two reads of a followed log


def read_last_lines(file: BinaryIO, log: Path, count: int) -> list[str]:
    """Return the last lines and leave the file at their end. Read no more of a long log than necessary."""
    end = file.seek(0, os.SEEK_END)
    blocks: list[bytes] = []
    newlines = size = 0
    for block in chain(
        log_rotation.read_blocks_backwards(file), log_rotation.read_backwards(log_rotation.list_rotated(log))
    ):
        if newlines > count or not count or size > MAX_BYTES:
            break
        blocks.append(block)
        size += len(block)
        newlines += block.count(b"\n")
    file.seek(end)
    lines = b"".join(reversed(blocks)).removesuffix(b"\n").split(b"\n") if blocks else []
    return [_decode(line) for line in lines[-count:]]


def follow(file: BinaryIO, log: Path) -> Iterator[str]:
    """Yield each new line, forever; continue in the new file when the log is rotated or replaced."""
    unfinished = b""
    while True:
        block = file.readline()
        unfinished += block
        if not block and _was_rotated(file, log):
            unfinished += _read_rest(file, log)
            file = log.open("rb")
        elif not block:
            time.sleep(POLL_INTERVAL)
        *lines, unfinished = unfinished.split(b"\n")
        yield from map(_decode, lines)


def _was_rotated(file: BinaryIO, log: Path) -> bool:
    try:
        return not _is_same(file, log) or log.stat().st_size < file.tell()
    except FileNotFoundError:
        return False


def _is_same(file: BinaryIO, log: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), log.stat())


def _read_rest(file: BinaryIO, log: Path) -> bytes:
    """Return what was written after the last read and is now in the newest rotated file."""
    try:
        with log_rotation.newest_rotated_path(log).open("rb") as rotated:
            rotated.seek(file.tell())
            return rotated.read() if _is_same(file, log) else b""
    except FileNotFoundError:
        return b""


def _decode(line: bytes) -> str:
    return line.rstrip(b"\r\n").decode(errors="replace")
