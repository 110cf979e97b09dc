"""How much of the disk a data folder takes, for the moment when its server cannot be asked.

Nothing in it is opened but folders, no link is followed, and the walk is bounded: a tenant may have put anything there.
"""

import os
from itertools import islice
from pathlib import Path

from bough.engine.local.tenant_files import open_folder, scan_entries

_PARTS = ("base", "global", "pg_notify", "pg_replslot", "pg_snapshots")
_DEEPEST = 3  # of a part: a database, or temporary files and the sets of those
_MAX_ENTRIES = 200_000
_BLOCK = 512  # what st_blocks counts


def measure_footprint(data: Path) -> int:
    """Bytes on disk of what a tenant fills; at least so much, when there are more files than we look at."""
    total, left = 0, _MAX_ENTRIES
    with open_folder(data) as descriptor:
        for part in _PARTS:
            found, left = _below(part, descriptor, _DEEPEST, left)
            total += found
    return total


def _below(name: str, within: int, depth: int, left: int) -> tuple[int, int]:
    """The bytes in a folder, and how many entries may still be looked at."""
    total = 0
    folders: list[str] = []
    try:
        with open_folder(name, within) as descriptor:
            for entry in islice(scan_entries(descriptor), left):
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    total += _blocks(entry)
            for each in folders if depth > 1 else ():
                found, left = _below(each, descriptor, depth - 1, left)
                total += found
    except OSError:  # it is gone, or no folder: then nothing of Postgres's is in it
        pass
    return total, left


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    except FileNotFoundError:
        return 0
