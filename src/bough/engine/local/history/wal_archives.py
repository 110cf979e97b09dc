"""WAL archives: one folder per volume, which its server fills and only the project's user may enter.

An archive outlives its volume. A tenant's code may replace anything in it at any moment, so files are looked up in the
open folder and no link is followed. The folder that holds the archives is the platform's.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bough import clock
from bough.engine.local.durable_files import sync_folder, write_atomically
from bough.engine.local.tenant_file_checks import MAX_FOLDER_ENTRIES, TenantFileError, TooManyEntries
from bough.engine.local.tenant_files import BLOCK_BYTES, open_folder, open_tenant_folder, scan_entries
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes, retired_record_path
from bough.engine.port import EngineError
from bough.ids import ProjectId, VolumeId
from bough.postgres import archiver

_RECORD_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class UnarchivedFile:
    name: str
    age_seconds: float


class WalArchives:
    def __init__(self, volumes: Volumes) -> None:
        self._root = volumes.wal_archive_root
        self._volumes = volumes

    @contextmanager
    def open_folder(self, volume: VolumeId) -> Iterator[int]:
        """Open the folder. Raises FileNotFoundError if there is none."""
        with open_folder(self._root) as root, open_folder(volume, root) as archive:
            yield archive

    def list_wal_files(self, volume: VolumeId) -> set[str]:
        """Return the names of archived segments and timeline history files."""
        return {name for name in self.list_names(volume) if archiver.is_needed_for_recovery(name)}

    def list_names(self, volume: VolumeId) -> list[str]:
        """Return the names of all files in the folder."""
        return [name for name, _ in self._files(volume)]

    def measure_bytes(self, volume: VolumeId) -> int:
        """Return the bytes on disk."""
        return sum(size for _, size in self._files(volume))

    def list_unarchived_names(self, folder: VolumeFolder) -> list[str]:
        """Return the WAL files of a volume that are ready to be archived and are not archived yet."""
        return [each.name for each in self.list_unarchived(folder)]

    def list_unarchived(self, folder: VolumeFolder) -> list[UnarchivedFile]:
        """Return the same files with how long each has waited, oldest first."""
        try:
            with (
                open_tenant_folder(folder.pg_wal) as pg_wal,
                open_folder(archiver.STATUS_FOLDER, pg_wal) as status_folder,
            ):
                return sorted(_scan_unarchived(status_folder), key=lambda each: each.name)
        except OSError:
            return []

    def read_record(self, volume: VolumeId) -> VolumeRecord | None:
        """Return the record of a volume, which may be retired; None if there is no such volume."""
        return self._volumes.folder(volume).read_record() or self._read_retired_record(volume)

    def write_retired_record(self, volume: VolumeId, record: VolumeRecord) -> None:
        """Store the record next to the archive, so that the volume can be removed."""
        write_atomically(self.retired_record_path(volume), json.dumps(record.to_fields()), durable=True)

    def list_retired(self) -> list[VolumeId]:
        """Return the volumes of which only the history is left."""
        return [VolumeId(path.stem) for path in self._root.glob("[!.]*" + _RECORD_SUFFIX)]

    async def drop(self, volume: VolumeId, project: ProjectId) -> None:
        """Remove the folder and the record next to it."""
        await self._volumes.run_removal(lambda: self._drop(volume), project)

    def retired_record_path(self, volume: VolumeId) -> Path:
        return retired_record_path(self._volumes.wal_archive_path(volume))

    def _drop(self, volume: VolumeId) -> None:
        remove_tree(self._volumes.wal_archive_path(volume))
        self.retired_record_path(volume).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            sync_folder(self._root)

    def _files(self, volume: VolumeId) -> list[tuple[str, int]]:
        """Return names and bytes on disk. Links, which only a tenant creates, are left out."""
        try:
            with self.open_folder(volume) as archive:
                entries = scan_entries(archive, MAX_FOLDER_ENTRIES)
                return [(each.name, _disk_bytes(each)) for each in entries if each.is_file(follow_symlinks=False)]
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
                f"The record {self.retired_record_path(volume)} is broken: restore it from a backup.", transient=False
            ) from error


def _scan_unarchived(status_folder: int) -> Iterator[UnarchivedFile]:
    now = clock.now().timestamp()
    for entry in scan_entries(status_folder, MAX_FOLDER_ENTRIES):
        name = archiver.parse_ready_file(entry.name)
        if name is not None:
            with suppress(FileNotFoundError):
                yield UnarchivedFile(name, now - entry.stat(follow_symlinks=False).st_mtime)


def _disk_bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
    except FileNotFoundError:
        return 0
