"""Where WAL is archived: a folder a volume, which its server fills by itself and only its user may enter.

It outlives its volume. What is in it a tenant's code may replace at any moment, so it is looked up in the open folder
and no link is followed; the folder above is ours.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from bough import clock
from bough.engine.local.durable import sync_folder, write_atomically
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import (
    MOST_LISTED,
    TenantFileError,
    TooManyNames,
    entries,
    opened_folder,
    opened_tenant_folder,
)
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes, retired_record
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import archiving

_RECORD = ".json"
_BLOCK = 512  # what st_blocks counts


@dataclass(frozen=True, slots=True)
class Waiting:
    name: str
    seconds: float


class Archives:
    def __init__(self, volumes: Volumes) -> None:
        self._root = volumes.archives
        self._volumes = volumes

    def folder(self, volume: VolumeId) -> Path:
        return self._volumes.archive(volume)

    def ensure(self, volume: VolumeId, owner: Identity) -> None:
        """The folder, and the link by which the volume's server finds it. Cheap when they are there."""
        self._volumes.ensure_archive(volume, owner)

    @contextmanager
    def opened(self, volume: VolumeId) -> Iterator[int]:
        """The folder; FileNotFoundError when there is none."""
        with opened_folder(self._root) as above, opened_folder(volume, above) as here:
            yield here

    def segments(self, volume: VolumeId) -> set[str]:
        """The names of archived WAL files and of timelines' histories."""
        return {name for name in self.names(volume) if archiving.is_kept(name)}

    def names(self, volume: VolumeId) -> list[str]:
        """Of all files in the folder."""
        return [name for name, _ in self._files(volume)]

    def bytes(self, volume: VolumeId) -> int:
        """On disk."""
        return sum(told for _, told in self._files(volume))

    def waiting(self, folder: VolumeFolder) -> list[str]:
        """The files of a volume that its server has marked to be archived, and has not archived."""
        return [each.name for each in self.waiting_now(folder)]

    def waiting_now(self, folder: VolumeFolder) -> list[Waiting]:
        """The same, and how long each waits; oldest first."""
        try:
            with (
                opened_tenant_folder(folder.wal) as here,
                opened_folder(archiving.STATUS_FOLDER, here) as marks,
            ):
                return sorted(_waiting(marks), key=lambda each: each.name)
        except OSError:
            return []

    def record(self, volume: VolumeId) -> VolumeRecord | None:
        """Of a volume, also of one that is retired; None when there is no such volume."""
        return self._volumes.folder(volume).read() or self._retired(volume)

    def keep_record(self, volume: VolumeId, record: VolumeRecord) -> None:
        """The volume may go: what must be known of it is beside its archive."""
        write_atomically(self.noted(volume), json.dumps(asdict(record)), durable=True)

    def retired(self) -> list[VolumeId]:
        """The volumes of which only the history is left."""
        return [VolumeId(path.stem) for path in self._root.glob("[!.]*" + _RECORD)]

    def drop(self, volume: VolumeId) -> None:
        """The folder and the record are gone."""
        remove_tree(self.folder(volume))
        self.noted(volume).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            sync_folder(self._root)

    def _files(self, volume: VolumeId) -> list[tuple[str, int]]:
        """Names, and bytes on disk. No links, which the tenant could have put there."""
        try:
            with self.opened(volume) as here:
                found = entries(here, MOST_LISTED)
                return [(each.name, _blocks(each) * _BLOCK) for each in found if each.is_file(follow_symlinks=False)]
        except TooManyNames:
            raise
        except (FileNotFoundError, TenantFileError):
            return []

    def _retired(self, volume: VolumeId) -> VolumeRecord | None:
        try:
            return VolumeRecord.of(json.loads(self.noted(volume).read_text()))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise EngineError(
                f"The record {self.noted(volume)} is broken: put it back from a backup.", transient=False
            ) from error

    def noted(self, volume: VolumeId) -> Path:
        return retired_record(self.folder(volume))


def _waiting(marks: int) -> Iterator[Waiting]:
    now = clock.now().timestamp()
    for each in entries(marks, MOST_LISTED):
        name = archiving.waits(each.name)
        if name is not None:
            with suppress(FileNotFoundError):
                yield Waiting(name, now - each.stat(follow_symlinks=False).st_mtime)


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks
    except FileNotFoundError:
        return 0
