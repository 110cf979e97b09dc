"""Give back the blocks of large files a few at a time, before the files are removed.

A file of many thousand extents is freed in a moment, but what that leaves to be written comes out at
the next sync of anybody, and whoever writes to a file that shared blocks with it waits so long: for
tenths of a second, as measured with a database that was much written and often branched. So every file
becomes shorter piece by piece, each piece is written at once, and then others have their turn.

Names are the tenant's, who may put another thing in the place of anything: no link is followed, and a
file that has another name somewhere keeps its bytes.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

from bough import clock
from bough.engine.local.tenant_files import MAX_FILE_BYTES, open_folder, scan_entries
from bough.engine.local.volumes.ioctls import end_of_extents

_LARGE = 4 * 1024 * 1024
_BLOCK = 512  # what st_blocks counts
_LARGEST_PIECE = 256 * 1024 * 1024
_LONGEST_PAUSE = 0.1  # seconds
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def free_blocks(data: Path, hurry: Event) -> None:
    """The large files of a data folder's databases become empty; whatever stands in the way is left as it is.

    In a hurry, all that is left is.
    """
    with suppress(OSError), open_folder(data) as top, open_folder("base", top) as base:
        for entry in scan_entries(base):
            with suppress(OSError), open_folder(entry.name, base) as database:
                for each in scan_entries(database):
                    with suppress(OSError):
                        _free_file_blocks(each.name, database, hurry)


def _free_file_blocks(name: str, folder: int, hurry: Event) -> None:
    told = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if told.st_blocks * _BLOCK <= _LARGE or told.st_size > MAX_FILE_BYTES:  # a hole has no blocks to give back
        return
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        seen = os.fstat(file)
        if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1:
            for place in reversed([*_places(file, min(seen.st_size, MAX_FILE_BYTES))]):
                if not hurry.is_set():
                    _shorten(file, place, hurry)
    finally:
        os.close(file)


def _places(file: int, size: int) -> Iterator[int]:
    """Where pieces begin that hold no more than some hundred extents."""
    place = 0
    while place < size:
        yield place
        place = max(end_of_extents(file, place, _LARGEST_PIECE), place + 1)


def _shorten(file: int, size: int, hurry: Event) -> None:
    """At most half of the time is ours."""
    began = clock.monotonic()
    os.ftruncate(file, size)
    os.fsync(file)
    hurry.wait(min(clock.monotonic() - began, _LONGEST_PAUSE))
