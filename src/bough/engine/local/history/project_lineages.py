"""Reads the lineages of all volumes of a project from their records.

A home may have thousands of volumes, so a record is read again only when its file changed.
"""

from collections import defaultdict
from collections.abc import Iterator

from bough.engine.local.folder_index import FileVersion, read_version
from bough.engine.local.history.ancestry import build_lineage
from bough.engine.local.history.bases import Base, parse_base, sort_bases
from bough.engine.local.history.retention import LineageNode
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import ProjectId, VolumeId


class ProjectLineages:
    """Its methods block; call them in a thread."""

    def __init__(self, volumes: Volumes, archives: WalArchives) -> None:
        self._volumes = volumes
        self._archives = archives
        self._cache: dict[VolumeId, tuple[FileVersion, VolumeRecord]] = {}

    def read_project(
        self, project: ProjectId, broken: list[VolumeId] | None = None
    ) -> dict[VolumeId, LineageNode[Base]]:
        """Return the volumes of a project, retired ones included. Replicas have no history.

        Volumes with broken records, which may belong to any project, are added to `broken`.
        """
        records = {
            name: record
            for name, record in self._records([] if broken is None else broken)
            if record.project_id == project
        }
        bases: dict[VolumeId, list[Base | None]] = defaultdict(list)
        for name, record in records.items():
            if record.base_of is not None:
                bases[VolumeId(record.base_of)].append(parse_base(name, self._volumes.folder(name), record))
        return {
            name: build_node(name, record, sort_bases(bases[name]))
            for name, record in records.items()
            if record.base_of is None and not record.is_replica
        }

    def _records(self, broken: list[VolumeId]) -> Iterator[tuple[VolumeId, VolumeRecord]]:
        present = [*self._volumes.list_volumes_and_bases(), *self._archives.list_retired()]
        for removed in self._cache.keys() - set(present):
            del self._cache[removed]
        for name in present:
            try:
                record = self._record(name)
            except EngineError:
                broken.append(name)
            else:
                if record is not None:
                    yield name, record

    def _record(self, name: VolumeId) -> VolumeRecord | None:
        version = read_version(self._volumes.folder(name).record_file) or read_version(
            self._archives.retired_record_path(name)
        )
        if version is None:
            return None
        cached = self._cache.get(name)
        if cached is not None and cached[0] == version:
            return cached[1]
        record = self._archives.read_record(name)
        if record is not None:
            self._cache[name] = (version, record)
        return record


def build_node(name: VolumeId, record: VolumeRecord, bases: list[Base]) -> LineageNode[Base]:
    return LineageNode(
        lineage=build_lineage(name, record, bases),
        parent=VolumeId(record.source_volume_id) if record.source_volume_id else None,
        forked_at=record.origin.at,
        is_self_contained=record.is_self_contained,
    )
