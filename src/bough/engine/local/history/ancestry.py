"""The lives that a volume's history is made of: its own, and those of the volumes that it stands on."""

import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import segments
from bough.engine.local.history.archives import Archives
from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.planning import Life
from bough.engine.local.template import Templates
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
    lives: list[Life[Base | Template]]  # the volume's own first; empty: there is no such volume
    template: Template | None  # what the oldest of them stands on


class Lives:
    """Blocking, for a thread."""

    def __init__(self, archives: Archives, bases: Bases, templates: Templates) -> None:
        self.archives = archives
        self.bases = bases
        self._templates = templates

    def of(self, volume: VolumeId) -> Ancestry:
        lives: list[Life[Base | Template]] = []
        at: VolumeId | None = volume
        while at is not None and (record := self.archives.record(at)) is not None:
            lives.append(life(at, record, self.bases.of(at)))
            if record.begins_itself or record.first_segment is None:
                return Ancestry(lives=lives, template=None)
            if record.parent is None:
                return Ancestry(lives=lives, template=self.template(record.install))
            at = VolumeId(record.parent)
        return Ancestry(lives=lives, template=None)

    def template(self, install: str) -> Template | None:
        data = self._templates.place(install)
        try:
            control = segments.control(data)
        except (OSError, struct.error):
            return None
        end = wal.end_of_checkpoint(lsn.number(control.checkpoint))
        return Template(data=data, lsn=lsn.text(end), first_segment=control.first_segment)


def life(volume: VolumeId, record: VolumeRecord, bases: list[Base]) -> Life[Base | Template]:
    return Life(volume=volume, first_segment=record.first_segment, lsn=record.lsn, bases=bases)
