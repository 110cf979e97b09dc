"""Reads the lineages that a volume's history consists of: its own and those of the volumes it depends on."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.history.bases import Base, Bases
from bough.engine.local.history.recovery_plan import StartT, VolumeLineage
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.templates import Templates
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.folder import VolumeRecord
from bough.ids import VolumeId
from bough.postgres import wal

_BEGINNING_OF_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The data that a branch without a parent starts with. It never changes."""

    data: Path
    lsn: str
    first_segment: str
    at: datetime = _BEGINNING_OF_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    lineages: list[VolumeLineage[Base | Template]]  # youngest first; empty if the volume does not exist
    template: Template | None  # the template that the oldest lineage starts from


class LineageReader:
    """Its methods block; call them in a thread."""

    def __init__(self, archives: WalArchives, bases: Bases, templates: Templates) -> None:
        self._archives = archives
        self._bases = bases
        self._templates = templates

    def read(self, volume: VolumeId) -> Ancestry:
        lineages: list[VolumeLineage[Base | Template]] = []
        current: VolumeId | None = volume
        while current is not None and (record := self._archives.read_record(current)) is not None:
            lineages.append(build_lineage(current, record, self._bases.list_bases(current)))
            if record.is_self_contained or record.first_segment is None:
                return Ancestry(lineages=lineages, template=None)
            if record.source_volume_id is None:
                return Ancestry(lineages=lineages, template=self.read_template(record.template))
            current = VolumeId(record.source_volume_id)
        return Ancestry(lineages=lineages, template=None)

    def read_own_template(self, volume: VolumeId) -> Template | None:
        """Return the template that the volume, or the first of its ancestors, was cloned from."""
        record = self._archives.read_record(volume)
        return None if record is None else self.read_template(record.template)

    def read_template(self, name: str) -> Template | None:
        data = self._templates.path(name)
        try:
            control = read_control_file(data)
        except (OSError, struct.error):
            return None
        end = wal.checkpoint_end(lsn.to_int(control.checkpoint))
        return Template(data=data, lsn=lsn.to_text(end), first_segment=control.first_segment)


def build_lineage(volume: VolumeId, record: VolumeRecord, bases: Sequence[StartT]) -> VolumeLineage[StartT]:
    return VolumeLineage(volume=volume, first_segment=record.first_segment, fork_lsn=record.origin_lsn, bases=bases)
