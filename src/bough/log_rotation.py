"""Rotation of log files that other processes keep open.

Postgres writes to an inherited file descriptor, so its log cannot be renamed. Instead the text is copied to `NAME.1`
and the file is truncated; all writers append, so they continue at its start. Older files are shifted: `.1` becomes
`.2.gz`, that one `.3.gz`, and the last is removed.
"""

import gzip
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

_BLOCK = 64 * 1024
_NUMBER = re.compile(r"\.([1-9][0-9]*)(?:\.gz)?")
_MAX_COPY_ROUNDS = 50  # then the log is truncated even if it is still being written
_GZIP_LEVEL = 1  # of 1 to 9: the fastest one already compresses logs tenfold


def rotate(log: Path, max_bytes: int, max_files: int) -> bool:
    """Rotate a log that is longer than `max_bytes` and keep `max_files` rotated files. Return whether it was rotated.

    Of a log that has grown far beyond the limit, only the last `max_bytes * max_files` are kept. What is written
    between the last check of its size and the truncation is lost: microseconds.
    """
    try:
        descriptor = os.open(log, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size <= max_bytes:
            return False
        _shift_rotated(log, max_files)
        _truncate(descriptor, log, max(0, status.st_size - max_bytes * max_files))
    finally:
        os.close(descriptor)
    return True


def remove_log(log: Path) -> None:
    """Remove the log and its rotated files."""
    for path in (*log.parent.glob(f"{log.name}.*"), log):
        path.unlink(missing_ok=True)


def list_rotated(log: Path) -> list[Path]:
    """The rotated files of a log, newest first."""
    return [path for _, path in sorted(_iterate_rotated(log))]


def read_backwards(files: Iterable[Path]) -> Iterator[bytes]:
    """Yield the contents of files, given newest first, in blocks from the end to the beginning."""
    for path in files:
        with suppress(FileNotFoundError), path.open("rb") as file:  # it may have been rotated since it was listed
            yield from [gzip.decompress(file.read())] if path.suffix == ".gz" else read_blocks_backwards(file)


def read_blocks_backwards(file: BinaryIO) -> Iterator[bytes]:
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        size = min(_BLOCK, position)
        position = file.seek(position - size)
        yield file.read(size)


def _truncate(source: int, log: Path, position: int) -> None:
    """Move everything after the position to the newest rotated file, and truncate the log."""
    with _new_file(newest_rotated_path(log)) as (new, target):
        position = _copy(source, target, position)
        new.rename(newest_rotated_path(log))
        # This must come last: it copies lines that were written meanwhile. A write may be seen half done, so the
        # truncation waits for the end of a line.
        for _ in range(_MAX_COPY_ROUNDS):
            before, position = position, _copy(source, target, position)
            if position == before and os.pread(source, 1, position - 1) == b"\n":
                break
        os.ftruncate(source, 0)


def _copy(source: int, target: int, position: int) -> int:
    """Copy up to the current end, and return its position."""
    end = os.fstat(source).st_size
    while position < end and (copied := os.sendfile(target, source, position, end - position)):
        position += copied
    return position


def _shift_rotated(log: Path, max_files: int) -> None:
    """Free the first number. Files after a gap keep theirs, so that a failed rotation can be repeated."""
    found = dict(_iterate_rotated(log))
    free = next(number for number in count(1) if number not in found)
    for number in sorted(found, reverse=True):
        if number > max_files or number == max_files < free:
            found[number].unlink()
        elif 1 < number < free:
            found[number].rename(_rotated_path(log, number + 1))
        elif number == 1:
            _compress(found[number], _rotated_path(log, 2))


def _compress(plain: Path, compressed: Path) -> None:
    with _new_file(compressed) as (new, target), plain.open("rb") as source:
        with (
            os.fdopen(target, "wb", closefd=False) as file,
            gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL) as compressor,
        ):
            shutil.copyfileobj(source, compressor, _BLOCK)
        new.rename(compressed)
    plain.unlink()


@contextmanager
def _new_file(path: Path) -> Iterator[tuple[Path, int]]:
    """Open a temporary file that the caller renames to `path`. After an error, such as a full disk, both go."""
    new = path.with_name(f"{path.name}.new")
    target = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield new, target
    except OSError:
        for each in (new, path):
            each.unlink(missing_ok=True)
        raise
    finally:
        os.close(target)


def newest_rotated_path(log: Path) -> Path:
    """The path of the file that the next rotation writes."""
    return log.with_name(f"{log.name}.1")


def _rotated_path(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}.gz")


def _iterate_rotated(log: Path) -> Iterator[tuple[int, Path]]:
    for path in log.parent.glob(f"{log.name}.*"):
        match = _NUMBER.fullmatch(path.name, len(log.name))
        if match:
            yield int(match[1]), path
