"""The lives that a volume's history is made of: its own, and those of the volumes that it stands on."""

import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import wal_segments
from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.recovery_plan import VolumeLineage
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.templates import Templates
from bough.engine.local.volumes.folder import VolumeRecord
from bough.ids import VolumeId
from bough.postgres import wal

_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What a branch of nothing begins with. It never changes."""

    data: Path
    lsn: str
    first_segment: str
    at: datetime = _EVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    lineages: list[VolumeLineage[Base | Template]]  # the volume's own first; empty: there is no such volume
    template: Template | None  # what the oldest of them stands on


class LineageReader:
    """Blocking, for a thread."""

    def __init__(self, archives: WalArchives, bases: Bases, templates: Templates) -> None:
        self.archives = archives
        self.bases = bases
        self._templates = templates

    def read(self, volume: VolumeId) -> Ancestry:
        lives: list[VolumeLineage[Base | Template]] = []
        at: VolumeId | None = volume
        while at is not None and (record := self.archives.read_record(at)) is not None:
            lives.append(build_lineage(at, record, self.bases.list_bases(at)))
            if record.begins_itself or record.first_segment is None:
                return Ancestry(lineages=lives, template=None)
            if record.parent is None:
                return Ancestry(lineages=lives, template=self.read_template(record.install))
            at = VolumeId(record.parent)
        return Ancestry(lineages=lives, template=None)

    def read_template(self, install: str) -> Template | None:
        data = self._templates.path(install)
        try:
            control = wal_segments.read_control_file(data)
        except (OSError, struct.error):
            return None
        end = wal.checkpoint_end(lsn.to_int(control.checkpoint))
        return Template(data=data, lsn=lsn.to_text(end), first_segment=control.first_segment)


def build_lineage(volume: VolumeId, record: VolumeRecord, bases: list[Base]) -> VolumeLineage[Base | Template]:
    return VolumeLineage(volume=volume, first_segment=record.first_segment, fork_lsn=record.lsn, bases=bases)
