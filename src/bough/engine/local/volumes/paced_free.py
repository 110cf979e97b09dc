"""Frees the blocks of large files in small steps, before the files are removed.

A file with many thousand extents is freed in a moment, but the changes are written at the next sync, and every writer
that shared blocks with the file waits for them: for tenths of a second, measured on a database with many writes and
branches. So each file is truncated step by step, and each step is synced at once and followed by a pause.

The names are the tenant's, who may replace anything at any moment: no link is followed, and a file with a second hard
link keeps its data.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

from bough import clock
from bough.engine.local.tenant_file_checks import MAX_FILE_BYTES
from bough.engine.local.tenant_files import BLOCK_BYTES, open_folder, scan_entries
from bough.engine.local.volumes.ioctls import find_extents_end

_LARGE = 4 * 1024 * 1024
_MAX_STEP_BYTES = 256 * 1024 * 1024
_MAX_PAUSE_SECONDS = 0.1
_FILE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def free_blocks(data: Path, stop_pacing: Event) -> None:
    """Truncate the large files of a data directory's databases; errors are ignored.

    Once `stop_pacing` is set, the remaining files stay as they are.
    """
    with suppress(OSError), open_folder(data) as top, open_folder("base", top) as base:
        for entry in scan_entries(base):
            with suppress(OSError), open_folder(entry.name, base) as database:
                for file in scan_entries(database):
                    with suppress(OSError):
                        _free_file_blocks(file.name, database, stop_pacing)


def _free_file_blocks(name: str, folder: int, stop_pacing: Event) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if status.st_blocks * BLOCK_BYTES <= _LARGE or status.st_size > MAX_FILE_BYTES:  # a hole has no blocks
        return
    file = os.open(name, _FILE_FLAGS, dir_fd=folder)
    try:
        opened = os.fstat(file)
        if stat.S_ISREG(opened.st_mode) and opened.st_nlink == 1:
            for size in reversed([*_step_offsets(file, min(opened.st_size, MAX_FILE_BYTES))]):
                if not stop_pacing.is_set():
                    _shorten(file, size, stop_pacing)
    finally:
        os.close(file)


def _step_offsets(file: int, size: int) -> Iterator[int]:
    """Yield offsets that split the file into steps of at most some hundred extents."""
    offset = 0
    while offset < size:
        yield offset
        offset = max(find_extents_end(file, offset, _MAX_STEP_BYTES), offset + 1)


def _shorten(file: int, size: int, stop_pacing: Event) -> None:
    """Truncate the file, then pause as long as that took."""
    started = clock.monotonic()
    os.ftruncate(file, size)
    os.fsync(file)
    stop_pacing.wait(min(clock.monotonic() - started, _MAX_PAUSE_SECONDS))
