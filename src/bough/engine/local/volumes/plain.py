"""Volumes that are full copies: for any file system, but slow and large."""

from pathlib import Path
from threading import Event

from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.volumes.file_copy import copy_bytes, copy_file
from bough.engine.local.volumes.tree_copy import copy_tree


class PlainDriver:
    name = "plain"

    def make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def clone(self, source: Path, target: Path, owner: Identity) -> None:
        self.make_folder(target)
        copy_tree(source, target, owner, copy_bytes)

    def clone_file(self, source: Path, target: Path, owner: Identity) -> None:
        copy_file(source, target, owner, copy_bytes)

    def remove(self, path: Path, stop_pacing: Event | None = None) -> None:
        remove_tree(path)
