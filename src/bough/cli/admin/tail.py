"""The end of a file, and what is added to it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

BLOCK = 64 * 1024
BEAT = 0.2  # seconds between looks at a file that is followed


def last_lines(file: BinaryIO, count: int) -> list[str]:
    """The last lines; the file is left at its end. Reads no more of a large file than it must."""
    position = file.seek(0, os.SEEK_END)
    text = b""
    while position > 0 and text.count(b"\n") <= count:
        step = min(BLOCK, position)
        position = file.seek(position - step)
        text = file.read(step) + text
    file.seek(0, os.SEEK_END)
    return [_text(line) for line in text.splitlines()[-count:]] if count else []


def followed(file: BinaryIO, path: Path) -> Iterator[str]:
    """Each new line, for ever; goes on with the next file when this one is replaced."""
    unfinished = b""
    while True:
        piece = file.readline()
        unfinished += piece
        if unfinished.endswith(b"\n"):
            yield _text(unfinished)
            unfinished = b""
        elif not piece:
            if _was_replaced(file, path):
                file = path.open("rb")
            time.sleep(BEAT)


def _was_replaced(file: BinaryIO, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) or there.st_size < file.tell()


def _text(line: bytes) -> str:
    return line.rstrip(b"\r\n").decode(errors="replace")
