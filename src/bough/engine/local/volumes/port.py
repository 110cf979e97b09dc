"""The volume driver port: data directories that can be cloned.

The calls block, so they are made in threads. Data directories belong to tenants, who may change anything in them at any
moment: no driver follows a link in one, or blocks on a pipe or device in one.
"""

from pathlib import Path
from threading import Event
from typing import Protocol

from bough.engine.local.isolation.sandbox import Identity


class Driver(Protocol):
    name: str

    def make_folder(self, path: Path) -> None:
        """Create an empty folder (0700) that can be cloned later. Every data directory is created with this."""

    def clone(self, source: Path, target: Path, owner: Identity) -> None:
        """Create `target`, which must not exist, as a copy of the data directory `source` that only `owner` may open.

        The source may be in use: a file that is removed, truncated or extended meanwhile is copied as far as it exists.
        Files that a clone must not have (postgres/clone_filter.py) are left out.
        """

    def clone_file(self, source: Path, target: Path, owner: Identity) -> None:
        """Clone one file, or copy it if the two paths are on different file systems."""

    def remove(self, path: Path, stop_pacing: Event | None = None) -> None:
        """Remove the folder with everything in it, subvolumes included. It need not exist.

        Until `stop_pacing` is set the driver may take its time, to disturb other users of shared blocks less.
        """
