"""All volumes of a home and what they stand on, read off their records.

A home may have thousands: what was read once is read again only when the file is another.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bough.engine.local.history import bases
from bough.engine.local.history.bases import Base
from bough.engine.local.history.recovery_plan import VolumeLineage
from bough.engine.local.history.retention import LineageNode
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import ProjectId, VolumeId

_Mark = tuple[int, int]  # of a file: another one has another


class ProjectLineages:
    """Blocking, for a thread."""

    def __init__(self, volumes: Volumes, archives: WalArchives) -> None:
        self._volumes = volumes
        self._archives = archives
        self._read: dict[VolumeId, tuple[_Mark, VolumeRecord]] = {}

    def read_project(
        self, project: ProjectId, broken: list[VolumeId] | None = None
    ) -> dict[VolumeId, LineageNode[Base]]:
        """The volumes of a project, also those of which only the history is left. Replicas have none.

        Those whose records are broken, and may be any project's, are added to `broken`.
        """
        records = {
            name: record
            for name, record in self._records([] if broken is None else broken)
            if record.project_id == project
        }
        of_each: dict[VolumeId, list[Base | None]] = defaultdict(list)
        for name, record in records.items():
            if record.base_of is not None:
                of_each[VolumeId(record.base_of)].append(bases.parse_base(name, self._volumes.folder(name), record))
        return {
            name: build_node(name, record, bases.sort_bases(of_each[name]))
            for name, record in records.items()
            if record.base_of is None and not record.is_replica
        }

    def _records(self, broken: list[VolumeId]) -> Iterator[tuple[VolumeId, VolumeRecord]]:
        present = [*self._volumes.list_volumes_and_bases(), *self._archives.list_retired()]
        for gone in self._read.keys() - set(present):
            del self._read[gone]
        for name in present:
            try:
                record = self._record(name)
            except EngineError:
                broken.append(name)
            else:
                if record is not None:
                    yield name, record

    def _record(self, name: VolumeId) -> VolumeRecord | None:
        mark = _mark(self._volumes.folder(name).path / "volume.json") or _mark(self._archives.retired_record_path(name))
        known = self._read.get(name)
        if mark is None or (known is not None and known[0] == mark):
            return known[1] if known is not None and mark is not None else None
        record = self._archives.read_record(name)
        if record is not None:
            self._read[name] = (mark, record)
        return record


def build_node(name: VolumeId, record: VolumeRecord, bases: list[Base]) -> LineageNode[Base]:
    return LineageNode(
        lineage=VolumeLineage(volume=name, first_segment=record.first_segment, fork_lsn=record.lsn, bases=bases),
        parent=VolumeId(record.parent) if record.parent else None,
        forked_at=record.origin.at,
        is_self_contained=record.begins_itself,
    )


def _mark(file: Path) -> _Mark | None:
    try:
        seen = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return seen.st_ino, seen.st_mtime_ns
