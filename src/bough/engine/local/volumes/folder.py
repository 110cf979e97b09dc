"""The folder of a volume and the records in it.

`data/` is written by Postgres and belongs to the project's user. `conf/`, `volume.json` and `applied` are the
platform's, and that user can at most read them: a tenant's code must not replace files that root writes later.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from bough.engine.local.durable_files import sync_folder, write_atomically
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.port import EngineError, Origin
from bough.ids import ProjectId, VolumeId

# Keys of volume.json that differ from the names of the fields. Homes of earlier versions have them.
_STORED_KEYS = {
    "template": "install",
    "source_volume_id": "parent",
    "has_external_wal": "wal_apart",
    "spare_name": "born",
    "origin_lsn": "lsn",
    "origin_at": "at",
    "has_subscriptions": "subscribes",
    "is_self_contained": "begins_itself",
    "assigned_at": "made_at",
    "is_pending": "pending",
}


_TEMPLATE_MAJOR = re.compile(r"[a-z]+-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRecord:
    project_id: ProjectId
    template: str  # the template that the first of its ancestors, or it itself, was cloned from
    source_volume_id: str | None = None  # the volume it was cloned from; None: the template
    has_external_wal: bool = False  # its WAL is outside its folder, on another file system
    spare_name: str | None = None  # its name in the warm pool
    origin_lsn: str | None = None  # of a replica: up to where it has its primary's WAL
    origin_at: str | None = None  # ISO 8601
    has_subscriptions: bool = False  # at its origin
    is_replica: bool = False  # a standby of its source
    first_segment: str | None = None  # of its own WAL; None if a version without history created it
    assigned_at: str | None = None  # ISO 8601; when a branch got it
    is_self_contained: bool = False  # no point before its own first base is needed, so it depends on no volume
    base_of: str | None = None  # the volume that it is a base of
    is_pending: bool = False  # its recovery is not finished, and no compute may open it

    @property
    def major(self) -> int:
        """The major version of Postgres, which the name of a template contains."""
        found = _TEMPLATE_MAJOR.match(self.template)
        if found is None:
            raise EngineError(f"The volume's template {self.template} names no version of Postgres.", transient=False)
        return int(found[1])

    @property
    def primary_volume_id(self) -> VolumeId | None:
        """The volume whose WAL it replays; None if it is not a replica."""
        return VolumeId(self.source_volume_id) if self.is_replica and self.source_volume_id else None

    @property
    def origin(self) -> Origin:
        at = datetime.fromisoformat(self.origin_at) if self.origin_at else None
        return Origin(lsn=self.origin_lsn, at=at, has_subscriptions=self.has_subscriptions)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Parse the fields of a file, which another version may have written."""
        keys = {field.name: _STORED_KEYS.get(field.name, field.name) for field in dataclass_fields(cls)}
        values = {name: fields[key] for name, key in keys.items() if key in fields}
        return cls(**{**values, "project_id": ProjectId(fields["project_id"])})

    def to_fields(self) -> dict[str, Any]:
        """Return the fields under the keys of the file."""
        return {_STORED_KEYS.get(name, name): value for name, value in asdict(self).items()}

    def with_origin(self, origin: Origin) -> Self:
        at = origin.at.isoformat() if origin.at else None
        return replace(self, origin_lsn=origin.lsn, origin_at=at, has_subscriptions=origin.has_subscriptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedState:
    """State of a volume whose branch is archived. It has a file of its own, because the record has other writers."""

    uid: int  # the owner of the data
    gid: int
    is_packed: bool  # the pack holds the data; a data directory is a leftover


@dataclass(frozen=True, slots=True)
class VolumeFolder:
    path: Path
    external_wal: Path  # where its WAL is, if the record says that it is outside the data directory

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def conf(self) -> Path:
        return self.path / "conf"

    @property
    def wal_archive_link(self) -> Path:
        """A link to its WAL archive, through which its server finds the archive."""
        return self.path / "archive"

    @property
    def pg_wal(self) -> Path:
        """Its WAL folder, according to the platform's record: a link in the data directory may be a tenant's."""
        return self.pg_wal_of(self.read_record())

    def pg_wal_of(self, record: VolumeRecord | None) -> Path:
        return self.external_wal if record is not None and record.has_external_wal else self.data / "pg_wal"

    @property
    def record_file(self) -> Path:
        return self.path / "volume.json"

    @property
    def _archived_state_file(self) -> Path:
        return self.path / "put-away"

    @property
    def _applied_digest_file(self) -> Path:
        return self.path / "applied"

    @property
    def owner(self) -> Identity:
        """The owner of the data, read from the files: the project may have another user by now."""
        try:
            status = self.data.stat()
        except FileNotFoundError:
            archived = self.read_archived_state()
            if archived is None or not archived.is_packed:
                raise
            return Identity(archived.uid, archived.gid)
        return Identity(status.st_uid, status.st_gid)

    def create(self, record: VolumeRecord) -> None:
        """Create everything but the data; closed to other users until it is complete."""
        self.path.mkdir(mode=0o700)
        self.conf.mkdir(mode=0o700)
        self.write_record(record, durable=False)

    def grant_access(self, owner: Identity) -> None:
        """Let the owner traverse and read; only the platform may write."""
        if owner.is_current_user:
            return
        for folder, mode in ((self.conf, 0o750), (self.path, 0o710)):
            os.chown(folder, -1, owner.gid)
            folder.chmod(mode)

    def read_record(self) -> VolumeRecord | None:
        """Return None if there is no such volume."""
        fields = self._fields()
        return None if fields is None else VolumeRecord.from_fields(fields)

    def write_record(self, record: VolumeRecord, *, durable: bool = True) -> None:
        write_atomically(self.record_file, json.dumps(record.to_fields()), durable=durable)

    def read_archived_state(self) -> ArchivedState | None:
        """Return None if the volume is not archived."""
        try:
            return ArchivedState(**json.loads(self._archived_state_file.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_archived_state(self, state: ArchivedState | None) -> None:
        if state is None:
            self._archived_state_file.unlink(missing_ok=True)
            sync_folder(self.path)
        else:
            write_atomically(self._archived_state_file, json.dumps(asdict(state)), durable=True)

    def check_not_archived(self) -> None:
        if self._archived_state_file.exists():
            raise EngineError("The branch is archived: unarchive it first.", transient=False)

    def read_applied_digest(self) -> str | None:
        """Return the digest of the roles and databases that were last applied; None if it is unknown."""
        try:
            return self._applied_digest_file.read_text() or None
        except FileNotFoundError:
            digest: str | None = (self._fields() or {}).get("applied")  # where the first version stored it
            return digest

    def write_applied_digest(self, digest: str) -> None:
        """Not synced: after a power failure the compute is read again instead."""
        write_atomically(self._applied_digest_file, digest)

    def clear_applied_digest(self) -> None:
        self._applied_digest_file.unlink(missing_ok=True)

    def write_conf(self, name: str, text: str, owner: Identity) -> None:
        """Write the file only if its text differs, so that a wake costs no write."""
        path = self.conf / name
        if path.exists() and path.read_text() == text:
            return
        if owner.is_current_user:
            write_atomically(path, text)
        else:
            write_atomically(path, text, mode=0o640, gid=owner.gid)

    def _fields(self) -> dict[str, Any] | None:
        try:
            fields: dict[str, Any] = json.loads(self.record_file.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise EngineError(
                f"The record volume.json of the volume {self.path.name} is broken: restore it from a backup.",
                transient=False,
            ) from error
        return fields
