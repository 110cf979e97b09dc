"""The names of the volumes that exist, cached until their folder changes."""

import os
from pathlib import Path
from threading import Lock

from bough.engine.local.folder_index import FolderVersion
from bough.ids import VolumeId

_BASE_PREFIX = "base-"
_SEPARATOR = "--"  # no id contains two consecutive hyphens


def is_base(volume: str) -> bool:
    """Return whether the name is that of a base, which no branch uses."""
    return volume.startswith(_BASE_PREFIX)


def base_prefix(volume: VolumeId) -> str:
    """Return how the names of the volume's bases start."""
    return f"{_BASE_PREFIX}{volume}{_SEPARATOR}"


class VolumeNames:
    """Thread-safe. The names include bases."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._version = FolderVersion(root)
        self._present: frozenset[VolumeId] = frozenset()
        self._bases: dict[str, list[VolumeId]] = {}  # by the prefix of their names

    def list_all(self) -> frozenset[VolumeId]:
        with self._lock:
            self._refresh()
            return self._present

    def list_bases(self, volume: VolumeId) -> list[VolumeId]:
        """Return the volume's bases, in no particular order."""
        with self._lock:
            self._refresh()
            return list(self._bases.get(base_prefix(volume), ()))

    def _refresh(self) -> None:
        if not self._version.has_changed():
            return
        with os.scandir(self._root) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        self._present = frozenset(VolumeId(name) for name in names if "." not in name)
        self._bases = {}
        for name in filter(is_base, self._present):
            self._bases.setdefault(name[: name.rfind(_SEPARATOR)] + _SEPARATOR, []).append(name)
        self._version.mark_read()
