"""The names of the volumes that exist, kept in memory until the folder that holds them changes."""

import os
from pathlib import Path
from threading import Lock

from bough.engine.local.folder_index import FolderVersion
from bough.ids import VolumeId

_BASE = "base-"
_APART = "--"  # no id has two hyphens beside one another


def is_base(volume: str) -> bool:
    """Whether a volume of this name is a copy to recover from, which no branch has."""
    return volume.startswith(_BASE)


def base_prefix(volume: VolumeId) -> str:
    """How the names of a volume's bases begin."""
    return f"{_BASE}{volume}{_APART}"


class VolumeNames:
    """Bases are volumes, too. Several threads may ask."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._state = FolderVersion(root)
        self._present: frozenset[VolumeId] = frozenset()
        self._bases: dict[str, list[VolumeId]] = {}  # by how their names begin

    def list_all(self) -> frozenset[VolumeId]:
        with self._lock:
            self._refresh()
            return self._present

    def list_bases(self, volume: VolumeId) -> list[VolumeId]:
        """The volume's bases, in no order."""
        with self._lock:
            self._refresh()
            return list(self._bases.get(base_prefix(volume), ()))

    def _refresh(self) -> None:
        if not self._state.has_changed():
            return
        with os.scandir(self._root) as entries:
            whole = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        self._present = frozenset(VolumeId(name) for name in whole if "." not in name)
        self._bases = {}
        for name in filter(is_base, self._present):
            self._bases.setdefault(name[: name.rfind(_APART)] + _APART, []).append(name)
        self._state.mark_read()
