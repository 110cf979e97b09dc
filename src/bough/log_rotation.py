"""Log files that grow in place: cut when they are too long, read as one over the pieces.

Postgres writes to a descriptor that it inherited, so a log cannot be renamed away from its writer.
Its text is copied to `NAME.1` and the file is emptied; every writer appends, so the next line
begins it anew. Older pieces move on: `.1` becomes `.2.gz`, that one `.3.gz`, the last is dropped.
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
_MAX_COPY_ROUNDS = 50  # at the size, before a log that never rests is cut all the same
_GZIP_LEVEL = 1  # of nine levels of packing: logs shrink tenfold with it, in a fraction of the time


def rotate(log: Path, max_bytes: int, max_files: int) -> bool:
    """Cut the log when it is longer than `longest` bytes, keeping so many pieces; whether it was cut.

    Of one that grew by many lengths since the last look no more is kept than of one that was cut in
    time. What is written between the last look at its size and the cut is lost: microseconds.
    """
    try:
        descriptor = os.open(log, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size <= max_bytes:
            return False
        _shift_rotated(log, max_files)
        _truncate(descriptor, log, max(0, seen.st_size - max_bytes * max_files))
    finally:
        os.close(descriptor)
    return True


def remove_log(log: Path) -> None:
    """The log and all its pieces."""
    for path in (*log.parent.glob(f"{log.name}.*"), log):
        path.unlink(missing_ok=True)


def list_rotated(log: Path) -> list[Path]:
    """What was cut off the log and kept, newest first."""
    return [path for _, path in sorted(_iterate_rotated(log))]


def read_backwards(files: Iterable[Path]) -> Iterator[bytes]:
    """What stands in the files, the newest given first, block by block from the end to the beginning."""
    for path in files:
        with suppress(FileNotFoundError), path.open("rb") as file:  # it may have moved on since it was listed
            yield from [gzip.decompress(file.read())] if path.suffix == ".gz" else read_blocks_backwards(file)


def read_blocks_backwards(file: BinaryIO) -> Iterator[bytes]:
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        size = min(_BLOCK, position)
        position = file.seek(position - size)
        yield file.read(size)


def _truncate(source: int, log: Path, position: int) -> None:
    """What stands behind the position becomes the newest piece, and the log is emptied."""
    with _new_file(newest_rotated_path(log)) as (made, target):
        position = _copy(source, target, position)
        made.rename(newest_rotated_path(log))
        # Last of all and in this order: lines that came while we copied go the same way. A write may be
        # seen half done, so the cut waits for the end of a line.
        for _ in range(_MAX_COPY_ROUNDS):
            before, position = position, _copy(source, target, position)
            if position == before and os.pread(source, 1, position - 1) == b"\n":
                break
        os.ftruncate(source, 0)


def _copy(source: int, target: int, position: int) -> int:
    """Up to the end as it is now; where that is."""
    end = os.fstat(source).st_size
    while position < end and (copied := os.sendfile(target, source, position, end - position)):
        position += copied
    return position


def _shift_rotated(log: Path, kept: int) -> None:
    """No piece is the first any more. Those behind a gap stay, so a cut that failed can be repeated."""
    found = dict(_iterate_rotated(log))
    free = next(number for number in count(1) if number not in found)
    for number in sorted(found, reverse=True):
        if number > kept or number == kept < free:
            found[number].unlink()
        elif 1 < number < free:
            found[number].rename(_rotated_path(log, number + 1))
        elif number == 1:
            _compress(found[number], _rotated_path(log, 2))


def _compress(plain: Path, packed: Path) -> None:
    with _new_file(packed) as (made, target), plain.open("rb") as source:
        with (
            os.fdopen(target, "wb", closefd=False) as file,
            gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_GZIP_LEVEL) as pack,
        ):
            shutil.copyfileobj(source, pack, _BLOCK)
        made.rename(packed)
    plain.unlink()


@contextmanager
def _new_file(place: Path) -> Iterator[tuple[Path, int]]:
    """A file to be filled and renamed; of a failure, such as a full disk, nothing is left."""
    made = place.with_name(f"{place.name}.new")
    target = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield made, target
    except OSError:
        for path in (made, place):
            path.unlink(missing_ok=True)
        raise
    finally:
        os.close(target)


def newest_rotated_path(log: Path) -> Path:
    """Where the text goes that is cut off next."""
    return log.with_name(f"{log.name}.1")


def _rotated_path(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}.gz")


def _iterate_rotated(log: Path) -> Iterator[tuple[int, Path]]:
    for path in log.parent.glob(f"{log.name}.*"):
        match = _NUMBER.fullmatch(path.name, len(log.name))
        if match:
            yield int(match[1]), path
