"""The folder of a volume.

`data/` is Postgres's own and the project's; `conf/`, `volume.json` and `applied` are ours, and the
project's user can at most read them: code that runs as a tenant must not move what root writes later.
"""

import json
import os
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRecord:
    project_id: ProjectId
    install: str
    parent: str | None = None  # the volume it was cloned from; None: its install's template
    wal_apart: bool = False  # whether its WAL lives outside, on another file system
    born: str | None = None  # its name while it waited in the warm pool
    lsn: str | None = None  # how it began: see `Origin`
    at: str | None = None  # ISO 8601
    subscribes: bool = False
    is_replica: bool = False  # it follows its parent; `lsn` is how far it was given its parent's WAL
    first_segment: str | None = None  # of WAL that is its own; None: made by a version that kept no history
    made_at: str | None = None  # ISO 8601; since when it is a branch's
    begins_itself: bool = False  # nobody goes back to before its own first base, so it stands on no other volume
    base_of: str | None = None  # the volume whose base it is; no branch ever has it
    pending: bool = False  # it is still being recovered to its point, and nobody may open it

    @property
    def primary_volume_id(self) -> VolumeId | None:
        """The volume whose WAL it reads on; None when it is no replica's."""
        return VolumeId(self.parent) if self.is_replica and self.parent else None

    @property
    def origin(self) -> Origin:
        at = datetime.fromisoformat(self.at) if self.at else None
        return Origin(lsn=self.lsn, at=at, has_subscriptions=self.subscribes)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Of a file, which another version may have written."""
        known = {field.name for field in dataclass_fields(cls)}
        given = {name: value for name, value in fields.items() if name in known}
        return cls(**{**given, "project_id": ProjectId(fields["project_id"])})

    def with_origin(self, origin: Origin) -> Self:
        at = origin.at.isoformat() if origin.at else None
        return replace(self, lsn=origin.lsn, at=at, subscribes=origin.has_subscriptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedState:
    """Of a volume whose branch is archived. A file of its own says so: the record has other writers."""

    uid: int  # whose its data is
    gid: int
    is_packed: bool  # its data is in the pack, and whatever else there is of it does not count


@dataclass(frozen=True, slots=True)
class VolumeFolder:
    path: Path
    external_wal: Path  # where its WAL is, if it is not in the data folder

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def conf(self) -> Path:
        return self.path / "conf"

    @property
    def archive_link(self) -> Path:
        """A link to where its WAL is archived: its server knows no other name of that."""
        return self.path / "archive"

    @property
    def pg_wal(self) -> Path:
        """Where its WAL is, if it exists. By our own record: a link in the data folder may be a tenant's."""
        return self.pg_wal_of(self.read_record())

    def pg_wal_of(self, record: VolumeRecord | None) -> Path:
        return self.external_wal if record is not None and record.wal_apart else self.data / "pg_wal"

    @property
    def _record_file(self) -> Path:
        return self.path / "volume.json"

    @property
    def _archived_state_file(self) -> Path:
        return self.path / "put-away"

    @property
    def _applied_digest_file(self) -> Path:
        return self.path / "applied"

    @property
    def owner(self) -> Identity:
        """Whose the data is: the truth about a volume that exists, whatever is lent to whom by now."""
        try:
            seen = self.data.stat()
        except FileNotFoundError:
            found = self.read_archived_state()
            if found is None or not found.is_packed:
                raise
            return Identity(found.uid, found.gid)
        return Identity(seen.st_uid, seen.st_gid)

    def create(self, record: VolumeRecord) -> None:
        """All but the data; closed to everyone, so that nobody moves what is being made."""
        self.path.mkdir(mode=0o700)
        self.conf.mkdir(mode=0o700)
        self.write_record(record, durable=False)

    def grant_access(self, owner: Identity) -> None:
        """The owner may pass and read, and only we may write."""
        if owner.is_current_user:
            return
        for folder, mode in ((self.conf, 0o750), (self.path, 0o710)):
            os.chown(folder, -1, owner.gid)
            folder.chmod(mode)

    def read_record(self) -> VolumeRecord | None:
        """What is known about the volume; None when there is no such volume."""
        fields = self._fields()
        return None if fields is None else VolumeRecord.from_fields(fields)

    def write_record(self, record: VolumeRecord, *, durable: bool = True) -> None:
        write_atomically(self._record_file, json.dumps(asdict(record)), durable=durable)

    def read_archived_state(self) -> ArchivedState | None:
        """None: it can be opened."""
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
            raise EngineError(
                "The branch is archived, and its data is put away: it has to be brought back first.", transient=False
            )

    def read_applied_digest(self) -> str | None:
        """Digest of the roles and databases that were last made so; None when that is not known."""
        try:
            return self._applied_digest_file.read_text() or None
        except FileNotFoundError:
            told: str | None = (self._fields() or {}).get("applied")  # where the first version kept it
            return told

    def write_applied_digest(self, digest: str) -> None:
        """Not synced: what a power cut takes is found out again by looking into the compute."""
        write_atomically(self._applied_digest_file, digest)

    def clear_applied_digest(self) -> None:
        self._applied_digest_file.unlink(missing_ok=True)

    def write_conf(self, name: str, text: str, owner: Identity) -> None:
        """Nothing is written when the file is as wished: a wake costs no write."""
        path = self.conf / name
        if path.exists() and path.read_text() == text:
            return
        if owner.is_current_user:
            write_atomically(path, text)
        else:
            write_atomically(path, text, mode=0o640, gid=owner.gid)

    def _fields(self) -> dict[str, Any] | None:
        try:
            fields: dict[str, Any] = json.loads(self._record_file.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise EngineError(
                f"The record volume.json of the volume {self.path.name} is broken: put it back from a backup.",
                transient=False,
            ) from error
        return fields
