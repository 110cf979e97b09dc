"""What each volume takes on the disk, and who uses it."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bough.cli.storage import volume_uses
from bough.config import Settings
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.runs import ComputeRuns
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.folders import Folders
from bough.engine.local.volumes.disk_usage import DiskUsage, measure_disk_usage
from bough.engine.local.volumes.folder import VolumeFolder
from bough.ids import VolumeId
from bough.store.volume_uses import VolumeUse

_NO_LIMIT = sys.maxsize  # names in a folder: whoever asks wants to know, and keeps nobody else waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUsage:
    """Bytes of one volume. It has names only if the store knows it, and an endpoint while a compute runs on it."""

    volume: str
    project_id: str | None
    project: str | None
    branch_id: str | None
    branch: str | None
    endpoint: str | None
    replica: bool  # it is the copy that a read replica of the branch serves
    snapshot: str | None  # the name of the snapshot that it is
    base: bool  # it is a copy of the branch as it was, to go back to
    own: int
    shared: int

    @property
    def is_spare(self) -> bool:
        return is_spare(self.volume)

    @property
    def total(self) -> int:
        return self.own + self.shared


def measure_volumes(settings: Settings, folders: Folders, report: Callable[[str, int, int], None]) -> list[VolumeUsage]:
    uses = volume_uses.read_volume_uses(settings)
    running = _running_endpoints(folders)
    found = sorted(path for path in folders.volumes.iterdir() if path.is_dir() and not path.is_symlink())
    taken = []
    for number, path in enumerate(found):
        report("measuring volumes", number, len(found))
        measured = _measure(path, folders)
        if measured is not None:
            taken.append(_make_usage(path, measured, uses, running.get(path.name)))
    return sorted(taken, key=lambda each: (each.is_spare, each.project or "", each.branch or "", each.volume))


def measure_archive(folders: Folders) -> int:
    """Bytes of WAL that was archived, of all volumes."""
    return measure_disk_usage(folders.wal_archives, _NO_LIMIT).own if folders.wal_archives.is_dir() else 0


def _make_usage(
    path: Path, measured: DiskUsage, uses: Mapping[VolumeId, VolumeUse], endpoint: str | None
) -> VolumeUsage:
    record = VolumeFolder(path, path).read_record()
    use = uses.get(VolumeId(record.base_of if record and record.base_of else path.name))
    return VolumeUsage(
        volume=path.name,
        project_id=record.project_id if record and not is_spare(path.name) else None,
        project=use.project_name if use else None,
        branch_id=use.branch_id if use else None,
        branch=use.branch_name if use else None,
        endpoint=endpoint,
        replica=use is not None and use.replica_id is not None,
        snapshot=use.snapshot_name if use else None,
        base=record is not None and record.base_of is not None,
        own=measured.own,
        shared=measured.shared,
    )


def _measure(path: Path, folders: Folders) -> DiskUsage | None:
    """With its WAL, wherever that is; None when it is gone by now."""
    try:
        inside = measure_disk_usage(path, _NO_LIMIT)
        apart = folders.pg_wal / path.name if folders.pg_wal else None
        outside = measure_disk_usage(apart, _NO_LIMIT) if apart and apart.is_dir() else DiskUsage(0, 0)
    except FileNotFoundError:
        return None
    return DiskUsage(inside.own + outside.own, inside.shared + outside.shared)


def _running_endpoints(folders: Folders) -> dict[str, str]:
    runs = (run for run in ComputeRuns(folders.runs).list_all() if not is_spare(run.endpoint_id))
    return {
        run.volume_id: run.endpoint_id
        for run in runs
        if postmaster.is_alive(folders.volumes / run.volume_id / "data", run.pid)
    }
