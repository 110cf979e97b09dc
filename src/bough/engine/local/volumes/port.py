"""What a volume driver offers: data folders that can be cloned.

The calls block, so they are made in threads. Data folders belong to tenants, who may change them at
any moment and in any way: no driver follows a link in one, or waits for anything but a file in one.
"""

from pathlib import Path
from threading import Event
from typing import Protocol

from bough.engine.local.isolation.sandbox import Identity


class Driver(Protocol):
    name: str

    def make_folder(self, path: Path) -> None:
        """An empty folder (0700) that can be cloned later: every data folder is made with this."""

    def clone(self, source: Path, target: Path, owner: Identity) -> None:
        """`target`, which must not exist, becomes a copy of the data folder `source` that only `owner` may open.

        The source may be in use: a file that vanishes, shrinks or grows meanwhile is copied as far as it is there.
        What a clone must not have (postgres/data_folder.py) is left out.
        """

    def clone_file(self, source: Path, target: Path, owner: Identity) -> None:
        """One file; when the two are on different file systems it is copied."""

    def remove(self, path: Path, hurry: Event | None = None) -> None:
        """The folder and all in it, subvolumes too, are gone; no matter if it never was.

        Until there is a hurry it may take longer, so that whoever shares blocks with it hardly notices.
        """
