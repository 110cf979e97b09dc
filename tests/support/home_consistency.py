"""Checks that a home and its machine are consistent: everything is known to the platform, and nothing exists twice."""

import json
from collections.abc import Iterator
from pathlib import Path

from bough.config import Settings, is_root
from bough.engine.local.computes.runs import ComputeRun, ComputeRuns
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.folders import Folders
from bough.engine.local.isolation import cgroup_hierarchies, cgroups
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord

_OPEN_FOLDERS = ("/dev/shm", "/tmp")


GATEWAY_SOCKET_FOLDERS = frozenset({"plane", "gateway", "door"})  # socket folders of the gateway


class HomeConsistency:
    """Use it while no control works on the home; computes may run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folders = Folders(settings)
        self._mounts = self._mounted()

    def find_inconsistencies(self) -> list[str]:
        """Return a sentence for each inconsistency."""
        checks = (self._processes, self._volumes, self._archives, self._sockets, self._uids, self._groups, self._files)
        return [sentence for check in checks for sentence in check()]

    def find_leftovers(self) -> list[str]:
        """Return what is left of a home whose last branch was deleted."""
        home = self._folders
        folders = (
            home.volumes,
            home.pg_wal,
            home.wal_archives,
            home.spools,
            home.runs,
            home.uids,
            home.sockets,
        )
        leftovers = [path for folder in filter(None, folders) for path in folder.iterdir()]
        leftovers += [group for group in self._home_groups() if group.exists()]
        return [*self.find_inconsistencies(), *(f"{path} is left" for path in leftovers), *self._traces()]

    def _runs(self) -> list[ComputeRun]:
        return list(ComputeRuns(self._folders.runs).list_all())

    def _records(self) -> dict[str, VolumeRecord]:
        """Return the records of volumes that exist."""
        records = {}
        for path in self._folders.volumes.iterdir():
            record = None if path.is_symlink() else VolumeFolder(path, path).read_record()
            if record is not None:
                records[path.name] = record
        return records

    def _retired(self) -> list[VolumeRecord]:
        """Return the records of retired volumes."""
        return [
            VolumeRecord.from_fields(json.loads(path.read_text())) for path in self._folders.wal_archives.glob("*.json")
        ]

    def _processes(self) -> Iterator[str]:
        """Every server process works on a volume of a known run."""
        known = {self._folders.volumes / run.volume_id / "data" for run in self._runs()}
        for entry in Path("/proc").iterdir():
            try:
                where = (entry / "cwd").readlink()
            except OSError:
                continue
            if where.is_relative_to(self._settings.home) and where not in known:
                yield f"process {entry.name} works in {where}, which belongs to no run"

    def _volumes(self) -> Iterator[str]:
        linked_names = {run.spare_name for run in self._runs()} | {run.endpoint_id for run in self._runs()}
        for path in self._folders.volumes.iterdir():
            if "." in path.name:
                yield f"{path.name} is an unfinished volume"
            elif path.is_symlink() and (path.name not in linked_names or not path.exists()):
                yield f"the link {path.name} is broken, or belongs to no run"
        with_external_wal = {name for name, record in self._records().items() if record.has_external_wal}
        wal_folders = {path.name for path in self._folders.pg_wal.iterdir()} if self._folders.pg_wal else set()
        if with_external_wal != wal_folders:
            yield f"WAL without a volume: {wal_folders - with_external_wal}"
            yield f"volumes without their WAL: {with_external_wal - wal_folders}"

    def _archives(self) -> Iterator[str]:
        """Every archive belongs to a volume or to a retired one."""
        archived = {path.name for path in self._folders.wal_archives.iterdir()}
        known = {name for name, record in self._records().items() if record.base_of is None}
        yield from (
            f"the archive {name} belongs to no volume"
            for name in archived
            if name.removesuffix(".json") == name and name not in known and f"{name}.json" not in archived
        )
        yield from (
            f"the base {name} belongs to no volume"
            for name, record in self._records().items()
            if record.base_of and record.base_of not in known and f"{record.base_of}.json" not in archived
        )

    def _sockets(self) -> Iterator[str]:
        runs = self._runs()
        names = {
            name for run in runs for name in (run.endpoint_id, run.spare_name, f"{run.endpoint_id}.side")
        } | GATEWAY_SOCKET_FOLDERS
        yield from (f"{path} belongs to no run" for path in self._folders.sockets.iterdir() if path.name not in names)

    def _uids(self) -> Iterator[str]:
        if not is_root():
            return
        links = [link for link in self._folders.uids.iterdir() if link.name.isdigit()]
        assigned = {int(link.name): str(link.readlink()) for link in links}
        projects = {record.project_id for record in (*self._records().values(), *self._retired())}
        if sorted(assigned.values()) != sorted(projects):
            yield f"user ids are assigned to {sorted(assigned.values())}, and volumes belong to {sorted(projects)}"
        if set(assigned) != self._claimed():
            yield f"user ids only at the host: {self._claimed() - set(assigned)}"
            yield f"user ids only in the home: {set(assigned) - self._claimed()}"
        for name, record in self._records().items():
            uid = (self._folders.volumes / name / "data").stat().st_uid
            if assigned.get(uid) != record.project_id:
                yield f"the volume {name} of {record.project_id} belongs to {uid}, the id of {assigned.get(uid)}"

    def _claimed(self) -> set[int]:
        host = self._folders.sockets.parent / "uids"
        with hold_file_lock(host / ".lock"):
            claims = [path for path in host.iterdir() if path.is_symlink()]
            return {int(claim.name) for claim in claims if claim.readlink().parent == self._folders.uids}

    def _groups(self) -> Iterator[str]:
        known = {run.spare_name or run.endpoint_id for run in self._runs()}
        for name in cgroups.detect_cgroups(self._settings).list_names() - known:
            yield f"the control group {name} belongs to no run"

    def _home_groups(self) -> list[Path]:
        return [
            each.parent_group / f"bough-{self._folders.sockets.name[-8:]}"
            for each in cgroup_hierarchies.read_hierarchies()
        ]

    def _files(self) -> Iterator[str]:
        for path in (*self._folders.runs.iterdir(), *self._folders.uids.iterdir()):
            if path.name.startswith("."):
                yield f"{path} is an unfinished file"
        if self._mounted() != self._mounts:
            yield f"the mounts are {self._mounted()}, and were {self._mounts}"

    def _traces(self) -> Iterator[str]:
        """Find what user ids of the home left; no other home may use them."""
        ours = range(*self._settings.project_uids)
        for path in (path for folder in _OPEN_FOLDERS for path in Path(folder).iterdir()):
            if path.lstat().st_uid in ours:
                yield f"{path} is left by a user id of the home"
        for kind in ("shm", "sem", "msg"):
            header, *lines = Path("/proc/sysvipc", kind).read_text().splitlines()
            column = header.split().index("uid")
            yield from (f"a {kind} is left: {line}" for line in lines if int(line.split()[column]) in ours)
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and _uid(entry) in ours:
                yield f"process {entry.name} runs as a user of the home"

    def _mounted(self) -> list[str]:
        """Return mount points in the home, and files of the home that loop devices use."""
        lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        mounts = [words[1] for words in lines if words[1].startswith(str(self._settings.home))]
        backing = [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
        return sorted(mounts) + sorted(path for path in backing if path.startswith(str(self._settings.home)))


def _uid(entry: Path) -> int | None:
    """Return None for a process that has ended and waits for its parent."""
    try:
        fields = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line)
    except OSError:
        return None
    return None if fields["State"].split()[0] in ("Z", "X") else int(fields["Uid"].split()[0])
