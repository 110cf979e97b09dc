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
from bough.engine.local.durable_files import sync_folder, write_atomically
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import (
    MAX_FOLDER_ENTRIES,
    TenantFileError,
    TooManyEntries,
    open_folder,
    open_tenant_folder,
    scan_entries,
)
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes, retired_record_path
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import archiver

_RECORD = ".json"
_BLOCK = 512  # what st_blocks counts


@dataclass(frozen=True, slots=True)
class UnarchivedFile:
    name: str
    age_seconds: float


class WalArchives:
    def __init__(self, volumes: Volumes) -> None:
        self._root = volumes.archive_root
        self._volumes = volumes

    def folder(self, volume: VolumeId) -> Path:
        return self._volumes.archive_path(volume)

    def ensure(self, volume: VolumeId, owner: Identity) -> None:
        """The folder, and the link by which the volume's server finds it. Cheap when they are there."""
        self._volumes.ensure_archive(volume, owner)

    @contextmanager
    def open_folder(self, volume: VolumeId) -> Iterator[int]:
        """The folder; FileNotFoundError when there is none."""
        with open_folder(self._root) as above, open_folder(volume, above) as here:
            yield here

    def list_wal_files(self, volume: VolumeId) -> set[str]:
        """The names of archived WAL files and of timelines' histories."""
        return {name for name in self.list_names(volume) if archiver.is_needed_for_recovery(name)}

    def list_names(self, volume: VolumeId) -> list[str]:
        """Of all files in the folder."""
        return [name for name, _ in self._files(volume)]

    def measure_bytes(self, volume: VolumeId) -> int:
        """On disk."""
        return sum(told for _, told in self._files(volume))

    def list_unarchived_names(self, folder: VolumeFolder) -> list[str]:
        """The files of a volume that its server has marked to be archived, and has not archived."""
        return [each.name for each in self.list_unarchived(folder)]

    def list_unarchived(self, folder: VolumeFolder) -> list[UnarchivedFile]:
        """The same, and how long each waits; oldest first."""
        try:
            with (
                open_tenant_folder(folder.pg_wal) as here,
                open_folder(archiver.STATUS_FOLDER, here) as marks,
            ):
                return sorted(_scan_unarchived(marks), key=lambda each: each.name)
        except OSError:
            return []

    def read_record(self, volume: VolumeId) -> VolumeRecord | None:
        """Of a volume, also of one that is retired; None when there is no such volume."""
        return self._volumes.folder(volume).read_record() or self._read_retired_record(volume)

    def write_retired_record(self, volume: VolumeId, record: VolumeRecord) -> None:
        """The volume may go: what must be known of it is beside its archive."""
        write_atomically(self.retired_record_path(volume), json.dumps(asdict(record)), durable=True)

    def list_retired(self) -> list[VolumeId]:
        """The volumes of which only the history is left."""
        return [VolumeId(path.stem) for path in self._root.glob("[!.]*" + _RECORD)]

    def drop(self, volume: VolumeId) -> None:
        """The folder and the record are gone."""
        remove_tree(self.folder(volume))
        self.retired_record_path(volume).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            sync_folder(self._root)

    def _files(self, volume: VolumeId) -> list[tuple[str, int]]:
        """Names, and bytes on disk. No links, which the tenant could have put there."""
        try:
            with self.open_folder(volume) as here:
                found = scan_entries(here, MAX_FOLDER_ENTRIES)
                return [(each.name, _blocks(each) * _BLOCK) for each in found if each.is_file(follow_symlinks=False)]
        except TooManyEntries:
            raise
        except (FileNotFoundError, TenantFileError):
            return []

    def _read_retired_record(self, volume: VolumeId) -> VolumeRecord | None:
        try:
            return VolumeRecord.from_fields(json.loads(self.retired_record_path(volume).read_text()))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise EngineError(
                f"The record {self.retired_record_path(volume)} is broken: put it back from a backup.", transient=False
            ) from error

    def retired_record_path(self, volume: VolumeId) -> Path:
        return retired_record_path(self.folder(volume))


def _scan_unarchived(marks: int) -> Iterator[UnarchivedFile]:
    now = clock.now().timestamp()
    for each in scan_entries(marks, MAX_FOLDER_ENTRIES):
        name = archiver.parse_ready_file(each.name)
        if name is not None:
            with suppress(FileNotFoundError):
                yield UnarchivedFile(name, now - each.stat(follow_symlinks=False).st_mtime)


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks
    except FileNotFoundError:
        return 0
