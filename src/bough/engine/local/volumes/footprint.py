"""Measures what a data directory takes on disk, for when its server does not answer.

Only folders are opened, no link is followed, and the number of entries is bounded: a tenant may have put anything
there.
"""

import os
from itertools import islice
from pathlib import Path

from bough.engine.local.tenant_files import BLOCK_BYTES, open_folder, scan_entries

_FOLDERS = ("base", "global", "pg_notify", "pg_replslot", "pg_snapshots")
_MAX_DEPTH = 3  # below such a folder: a database, or temporary files and sets of them
_MAX_ENTRIES = 200_000


def measure_footprint(data: Path) -> int:
    """Return the bytes on disk of what a tenant can fill; a lower bound if there are too many files."""
    total, remaining = 0, _MAX_ENTRIES
    with open_folder(data) as descriptor:
        for name in _FOLDERS:
            size, remaining = _measure_folder(name, descriptor, _MAX_DEPTH, remaining)
            total += size
    return total


def _measure_folder(name: str, within: int, depth: int, remaining: int) -> tuple[int, int]:
    """Return the bytes in a folder, and how many entries may still be read."""
    total = 0
    folders: list[str] = []
    try:
        with open_folder(name, within) as descriptor:
            for entry in islice(scan_entries(descriptor), remaining):
                remaining -= 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    total += _disk_bytes(entry)
            for subfolder in folders if depth > 1 else ():
                size, remaining = _measure_folder(subfolder, descriptor, depth - 1, remaining)
                total += size
    except OSError:  # it was removed, or is not a folder of Postgres
        pass
    return total, remaining


def _disk_bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
    except FileNotFoundError:
        return 0
