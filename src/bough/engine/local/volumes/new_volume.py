"""Creates one volume: under a temporary name, closed to its owner, and renamed when it is complete."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bough import clock
from bough.engine.local.durable_files import publish_folder, sync_files, sync_filesystem, sync_folder
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.local.tenant_files import descriptor_path, list_names, open_tenant_folder, write_file
from bough.engine.local.volumes.atomic_folders import staging_path
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.extension_record import ExtensionRecord
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.port import Driver
from bough.engine.port import EngineError, Origin
from bough.ids import ProjectId
from bough.postgres import wal
from bough.postgres.control_file import PATH as CONTROL_FILE
from bough.postgres.control_file import ControlFile


class NewVolume:
    def __init__(
        self, target: VolumeFolder, driver: Driver, owner: Identity, *, has_external_wal: bool, project: ProjectId
    ) -> None:
        self._target = target
        self._driver = driver
        self._owner = owner
        self._has_external_wal = has_external_wal
        self._grants_access = True
        self.project_id = project
        self._staging = VolumeFolder(staging_path(target.path), target.external_wal)

    @property
    def data(self) -> Path:
        return self._staging.data

    def write_origin(self, origin: Origin, first_segment: str | None) -> None:
        """Add the origin to the record; `publish` syncs it."""
        record = self._staging.read_record()
        if record is not None:
            self._staging.write_record(replace(record.with_origin(origin), first_segment=first_segment), durable=False)

    def write_extensions(self, record: ExtensionRecord) -> None:
        record.write(self._staging.path)

    def create(self, record: VolumeRecord) -> None:
        self.discard()
        if self._target.path.exists():
            raise EngineError("The branch's volume exists already.", transient=False)
        self._grants_access = record.base_of is None  # a tenant's code must not change a base
        now = clock.now().isoformat()
        self._staging.create(replace(record, has_external_wal=self._has_external_wal, assigned_at=now))

    def clone(self, source: Path) -> None:
        """Clone a data directory that may be in use, without its WAL."""
        self._driver.clone(source, self._staging.data, self._owner)

    def clone_wal(self, source: Path, names: Iterable[str]) -> None:
        """Clone these files of a `pg_wal`."""
        target = self._wal_folder()
        # Through a descriptor: a tenant's code could replace the folder by a link to another tenant's.
        with open_tenant_folder(source) as descriptor:
            for name in names:
                self._driver.clone_file(descriptor_path(descriptor, name), target / name, self._owner)

    def clone_needed_wal(self, source: Path) -> ControlFile:
        """Clone the WAL that the clone of a stopped server's data needs, according to its control file."""
        control = self._read_control_file()
        if control.is_shut_down:
            self.clone_wal(source, [control.first_segment])
        else:
            self.clone_wal_from(source, control.first_segment)
        return control

    def _read_control_file(self) -> ControlFile:
        try:
            return read_control_file(self._staging.data)
        except FileNotFoundError as error:  # missing in the source, or not a regular file there
            raise TenantFileError(f"The branch's files cannot be used: {CONTROL_FILE} is missing.") from error

    def clone_wal_from(self, source: Path, first: str) -> None:
        """Clone the files of a `pg_wal` that a server reads when it starts with this segment."""
        with open_tenant_folder(source) as pg_wal:
            names = list_names(pg_wal)
        self.clone_wal(source, wal.select_needed_from(first, names))

    def write_file(self, name: str, text: str) -> None:
        """Write a small file in the data directory."""
        write_file(name, self._staging.data, text.encode(), (self._owner.uid, self._owner.gid))

    def publish(self) -> None:
        if self._grants_access:
            self._staging.grant_access(self._owner)
        if self._has_external_wal:  # file by file, to not wait for other data on that disk
            sync_files(self._staging.external_wal)
            sync_folder(self._staging.external_wal.parent)
        sync_filesystem(self._staging.path)
        publish_folder(self._staging.path, self._target.path)

    def discard(self) -> None:
        self._driver.remove(self._staging.path)
        if self._has_external_wal and not self._target.path.exists():
            self._driver.remove(self._staging.external_wal)

    def _wal_folder(self) -> Path:
        link = self._staging.data / "pg_wal"
        folder = self._staging.external_wal if self._has_external_wal else link
        if self._has_external_wal and link.is_dir() and not link.is_symlink():
            link.rmdir()
        if not folder.exists():
            folder.mkdir(mode=0o700)
            os.chown(folder, self._owner.uid, self._owner.gid)
        if self._has_external_wal and not link.is_symlink():
            link_wal(link, folder, self._owner)
        return folder


def link_wal(link: Path, external_wal: Path, owner: Identity) -> None:
    """Link `pg_wal` to WAL outside the data directory."""
    link.symlink_to(os.path.relpath(external_wal, link.parent))  # relative, because a home may be moved
    os.chown(link, owner.uid, owner.gid, follow_symlinks=False)
