"""Measures the disk usage of each volume, and finds what it is used for."""

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

_NO_LIMIT = sys.maxsize  # directory entries to read: this command may take long, and blocks nothing else


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUsage:
    """The disk usage of one volume. The field names are keys of `bough storage status --json`.

    The names are known only if the store knows the volume; `endpoint` is set while a compute runs on it.
    """

    volume: str
    project_id: str | None
    project: str | None
    branch_id: str | None
    branch: str | None
    endpoint: str | None
    replica: bool  # whether the volume is the copy that a read replica of the branch serves
    snapshot: str | None  # the name of the snapshot that the volume holds
    base: bool  # whether the volume is an earlier copy of the branch, from which restores replay WAL
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
    endpoints = _running_endpoints(folders)
    paths = sorted(path for path in folders.volumes.iterdir() if path.is_dir() and not path.is_symlink())
    usages = []
    for number, path in enumerate(paths):
        report("measuring volumes", number, len(paths))
        disk_usage = _measure(path, folders)
        if disk_usage is not None:
            usages.append(_make_usage(path, disk_usage, uses, endpoints.get(path.name)))
    return sorted(usages, key=lambda usage: (usage.is_spare, usage.project or "", usage.branch or "", usage.volume))


def measure_archive(folders: Folders) -> int:
    """Return the size of the archived WAL of all volumes, in bytes."""
    return measure_disk_usage(folders.wal_archives, _NO_LIMIT).own if folders.wal_archives.is_dir() else 0


def _make_usage(
    path: Path, disk_usage: DiskUsage, uses: Mapping[VolumeId, VolumeUse], endpoint: str | None
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
        own=disk_usage.own,
        shared=disk_usage.shared,
    )


def _measure(path: Path, folders: Folders) -> DiskUsage | None:
    """Include the WAL, which may be in another folder; None when the volume has disappeared."""
    try:
        data = measure_disk_usage(path, _NO_LIMIT)
        wal_path = folders.pg_wal / path.name if folders.pg_wal else None
        wal = measure_disk_usage(wal_path, _NO_LIMIT) if wal_path and wal_path.is_dir() else DiskUsage(0, 0)
    except FileNotFoundError:
        return None
    return DiskUsage(data.own + wal.own, data.shared + wal.shared)


def _running_endpoints(folders: Folders) -> dict[str, str]:
    runs = (run for run in ComputeRuns(folders.runs).list_all() if not is_spare(run.endpoint_id))
    return {
        run.volume_id: run.endpoint_id
        for run in runs
        if postmaster.is_alive(folders.volumes / run.volume_id / "data", run.pid)
    }
