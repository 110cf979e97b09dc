"""The folder of a volume.

`data/` is Postgres's own and the project's; `conf/` and `volume.json` are ours, and the project's
user can at most read them: code that runs as a tenant must not move what root writes later.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from bough.engine.local.durable import write_atomically
from bough.engine.local.sandbox import Identity
from bough.ids import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRecord:
    project_id: ProjectId
    install: str
    applied: str | None = None  # digest of the roles and databases that were last made so


@dataclass(frozen=True, slots=True)
class VolumeFolder:
    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def conf(self) -> Path:
        return self.path / "conf"

    @property
    def _record(self) -> Path:
        return self.path / "volume.json"

    @property
    def owner(self) -> Identity:
        """Whose the data is: the truth about a volume that exists, whatever is lent to whom by now."""
        seen = self.data.stat()
        return Identity(seen.st_uid, seen.st_gid)

    def begin(self, record: VolumeRecord, owner: Identity) -> None:
        """All but the data: the owner may pass and read, and only we may write."""
        self.path.mkdir(mode=0o700)
        self.conf.mkdir(mode=0o700)
        write_atomically(self._record, json.dumps(asdict(record)))
        if not owner.is_ours:
            for folder, mode in ((self.conf, 0o750), (self.path, 0o710)):
                os.chown(folder, -1, owner.gid)
                folder.chmod(mode)

    def read(self) -> VolumeRecord | None:
        """What is known about the volume; None when there is no such volume."""
        try:
            fields = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        return VolumeRecord(
            project_id=ProjectId(fields["project_id"]), install=fields["install"], applied=fields["applied"]
        )

    def write(self, record: VolumeRecord) -> None:
        write_atomically(self._record, json.dumps(asdict(record)), durable=True)

    def write_conf(self, name: str, text: str, owner: Identity) -> None:
        """Nothing is written when the file is as wished: a wake costs no write."""
        path = self.conf / name
        if path.exists() and path.read_text() == text:
            return
        if owner.is_ours:
            write_atomically(path, text)
        else:
            write_atomically(path, text, mode=0o640, gid=owner.gid)
