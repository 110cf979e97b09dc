"""What each volume takes on the disk, and who uses it."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bough.cli.admin.storage import names
from bough.config import Settings
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.handover import is_spare
from bough.engine.local.computes.runs import Runs
from bough.engine.local.folders import Folders
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.sizes import Sizes, sizes
from bough.ids import VolumeId
from bough.store.volume_uses import VolumeUse

_MOST = sys.maxsize  # names in a folder: whoever asks wants to know, and keeps nobody else waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
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
    def spare(self) -> bool:
        return is_spare(self.volume)

    @property
    def total(self) -> int:
        return self.own + self.shared


def every(settings: Settings, folders: Folders, report: Callable[[str, int, int], None]) -> list[Taken]:
    uses = names.by_volume(settings)
    running = _running(folders)
    found = sorted(path for path in folders.volumes.iterdir() if path.is_dir() and not path.is_symlink())
    taken = []
    for number, path in enumerate(found):
        report("measuring volumes", number, len(found))
        measured = _measured(path, folders)
        if measured is not None:
            taken.append(_one(path, measured, uses, running.get(path.name)))
    return sorted(taken, key=lambda each: (each.spare, each.project or "", each.branch or "", each.volume))


def archived(folders: Folders) -> int:
    """Bytes of WAL that was archived, of all volumes."""
    return sizes(folders.history, _MOST).own if folders.history.is_dir() else 0


def _one(path: Path, measured: Sizes, uses: Mapping[VolumeId, VolumeUse], endpoint: str | None) -> Taken:
    record = VolumeFolder(path, path).read()
    use = uses.get(VolumeId(record.base_of if record and record.base_of else path.name))
    return Taken(
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


def _measured(path: Path, folders: Folders) -> Sizes | None:
    """With its WAL, wherever that is; None when it is gone by now."""
    try:
        inside = sizes(path, _MOST)
        apart = folders.wal / path.name if folders.wal else None
        outside = sizes(apart, _MOST) if apart and apart.is_dir() else Sizes(0, 0)
    except FileNotFoundError:
        return None
    return Sizes(inside.own + outside.own, inside.shared + outside.shared)


def _running(folders: Folders) -> dict[str, str]:
    runs = (run for run in Runs(folders.runs).all() if not is_spare(run.endpoint_id))
    return {
        run.volume_id: run.endpoint_id
        for run in runs
        if postmaster.is_alive(folders.volumes / run.volume_id / "data", run.pid)
    }
