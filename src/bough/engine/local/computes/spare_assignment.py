"""Assign a spare compute, which runs under a name of its own, to a branch and an endpoint.

Its folders are renamed and leave symbolic links under the old names. The running server still uses those names, for a
reload and for its own restart after the crash of a session. The links are removed when the compute has ended.
"""

import os
import secrets
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bough import clock
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns
from bough.engine.local.durable_files import sync_folder
from bough.engine.local.folders import Folders
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.volumes import wal_archive_link
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.ids import EndpointId, VolumeId

_PREFIX = "warm-"


def new_spare_name() -> str:
    return _PREFIX + secrets.token_hex(6)


def is_spare(name: str) -> bool:
    return name.startswith(_PREFIX)


class SpareAssignment:
    def __init__(self, folders: Folders, volumes: Volumes, runs: ComputeRuns) -> None:
        self._folders = folders
        self._volumes = volumes
        self._runs = runs
        # Of the project that was assigned the last spare; new spares are configured for the same plan.
        self.last_storage_limit_bytes: int | None = None

    def assign_volume(self, name: str, spec: BranchSpec, record: VolumeRecord) -> None:
        """Give the spare's volume to the branch. The rename is the commit point."""
        run = self._runs.get(EndpointId(name))
        old, new = self._volumes.folder(VolumeId(name)), self._volumes.folder(spec.volume_id)
        old.clear_applied_digest()
        now = clock.now().isoformat()
        old.write_record(replace(record, project_id=spec.project_id, spare_name=name, assigned_at=now))
        wal_archive_link.ensure_wal_archive(
            old, self._volumes.wal_archive_path(spec.volume_id), old.owner
        )  # spares have no archive
        if record.has_external_wal:
            self._volumes.move_wal(VolumeId(name), spec.volume_id)
        old.path.rename(new.path)
        _link(old.path, new.path)
        if run is not None:
            self._runs.put(replace(run, project_id=spec.project_id, volume_id=spec.volume_id))
        sync_folder(new.path.parent)

    def assign_compute(self, name: str, spec: ComputeSpec) -> bool:
        """Give the compute of an assigned spare to the endpoint. Idempotent. Return False when it does not run."""
        spare = EndpointId(name)
        run = self._runs.get(spare)
        if run is None:
            return False
        self.last_storage_limit_bytes = spec.storage_limit_bytes
        if self._runs.get(spec.endpoint_id) is None:
            sockets = self._folders.sockets
            _move(self._folders.log_file(spare), self._folders.log_file(spec.endpoint_id))
            _move(sockets / spare, sockets / spec.endpoint_id)
            _link(sockets / spare, sockets / spec.endpoint_id)
            self._runs.put(
                replace(
                    run,
                    endpoint_id=spec.endpoint_id,
                    project_id=spec.project_id,
                    volume_id=spec.volume_id,
                    spare_name=name,
                )
            )
        self._runs.remove(spare)
        return True

    def remove_stale_links(self) -> None:
        """Remove links of spares without a run, which a power failure may leave. Call it only at startup."""
        known = {name for run in self._runs.list_all() for name in (run.endpoint_id, run.spare_name)}
        for folder in (self._folders.volumes, self._folders.sockets):
            for link in folder.iterdir():
                if link.is_symlink() and is_spare(link.name) and link.name not in known:
                    link.unlink()

    def remove_runtime_files(self, run: ComputeRun) -> None:
        """Remove the sockets of a compute that has ended, and the links under its first name."""
        for name in {run.endpoint_id, run.spare_name or run.endpoint_id}:
            self.remove_sockets(EndpointId(name))
            link = self._volumes.folder(VolumeId(name)).path
            if link.is_symlink():
                link.unlink()

    def remove_sockets(self, name: EndpointId) -> None:
        _remove(self._folders.sockets / name)
        _remove(self._folders.replica_socket_folder(name))


def _move(old: Path, new: Path) -> None:
    if not old.is_symlink():
        with suppress(FileNotFoundError):
            old.rename(new)


def _link(old: Path, new: Path) -> None:
    if not os.path.lexists(old):
        old.symlink_to(new.name)


def _remove(path: Path) -> None:
    """Ignore errors: a tenant's code can fill the folder until it is sealed. The next start removes the rest."""
    with suppress(OSError):
        remove_tree(path)
