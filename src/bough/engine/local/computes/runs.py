"""Records of computes that were started and not stopped: one small file each, which a later control process reads."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from bough.engine.local.durable_files import write_atomically
from bough.engine.local.folder_index import FolderIndex
from bough.ids import EndpointId, ProjectId, VolumeId

_TEMPORARY_PREFIX = "own-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeRun:
    endpoint_id: EndpointId
    project_id: ProjectId
    volume_id: VolumeId
    install: str
    settings_digest: str  # of the active settings
    pid: int | None  # as launched; the pid file in the volume is authoritative
    spare_name: str | None = None  # its name in the warm pool, if it came from there
    cu: float | None = None  # its current size; None: max_cu
    max_cu: float | None = None  # None: an earlier version started it
    limits_text: str | None = None  # the settings that follow from its plan; None: an earlier version started it
    preloaded: str | None = None  # the libraries it was started with, joined by commas; None: an earlier version
    pin: str | None = None  # of its project; None: an earlier version started it
    waiting: str | None = None  # names of settings that apply from its next start, joined by commas

    @property
    def cgroup_name(self) -> str:
        """A compute from the warm pool stays in its first control group, because moving its processes takes time."""
        return self.spare_name or self.endpoint_id


def temporary_name(volume: VolumeId) -> EndpointId:
    """Return the name of a temporary compute on the volume. No endpoint id has this prefix."""
    return EndpointId(_TEMPORARY_PREFIX + volume)


def is_temporary(name: str) -> bool:
    return name.startswith(_TEMPORARY_PREFIX)


class ComputeRuns:
    """The files are authoritative. A copy in memory avoids reading them for each listing.

    The modification time of the folder shows changes by other processes, because every write renames a file into it. A
    change by another process within the same few milliseconds as one by this process may be missed; but while the
    control process runs, no other process writes here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()  # several threads use this object
        self._files = FolderIndex(folder, _read)
        self._by_volume: dict[VolumeId, dict[EndpointId, ComputeRun]] | None = None  # None: to be rebuilt

    def get(self, endpoint: EndpointId) -> ComputeRun | None:
        with self._lock:
            return self._known().get(_file_name(endpoint))

    def put(self, run: ComputeRun) -> None:
        name = _file_name(run.endpoint_id)
        with self._lock:
            before = self._known().get(name)
            write_atomically(self._folder / name, _render(run))
            self._files.put(name, run)
            self._update_volumes(before, run)

    def remove(self, endpoint: EndpointId) -> None:
        name = _file_name(endpoint)
        with self._lock:
            before = self._known().get(name)
            (self._folder / name).unlink(missing_ok=True)
            self._files.put(name, None)
            self._update_volumes(before, None)

    def remove_corrupt(self) -> None:
        """Remove files that a crash or a power failure left incomplete. Call it only at startup."""
        for path in self._folder.iterdir():
            if path.suffix != ".json" or self.get(EndpointId(path.stem)) is None:
                path.unlink()

    def list_all(self) -> list[ComputeRun]:
        with self._lock:
            return list(self._known().values())

    def list_on_volume(self, volume: VolumeId) -> list[ComputeRun]:
        """Return the runs of computes on a volume."""
        with self._lock:
            known = self._known()
            if self._by_volume is None:
                self._by_volume = {}
                for run in known.values():
                    self._by_volume.setdefault(run.volume_id, {})[run.endpoint_id] = run
            return list(self._by_volume.get(volume, {}).values())

    def _update_volumes(self, before: ComputeRun | None, after: ComputeRun | None) -> None:
        if self._by_volume is None:
            return
        if before is not None:
            others = self._by_volume.get(before.volume_id, {})
            others.pop(before.endpoint_id, None)
            if not others:
                self._by_volume.pop(before.volume_id, None)
        if after is not None:
            self._by_volume.setdefault(after.volume_id, {})[after.endpoint_id] = after

    def _known(self) -> Mapping[str, ComputeRun]:
        if self._files.refresh():
            self._by_volume = None
        return self._files.entries


def _file_name(endpoint: EndpointId) -> str:
    return f"{endpoint}.json"


def _render(run: ComputeRun) -> str:
    fields = asdict(run)
    fields["settings"] = fields.pop("settings_digest")
    fields["born"] = fields.pop("spare_name")
    fields["limits"] = fields.pop("limits_text")
    return json.dumps(fields)


def _read(path: Path) -> ComputeRun | None:
    if path.suffix != ".json":
        return None
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:  # a power failure left it empty, and ended the compute
        return None
    return ComputeRun(
        endpoint_id=EndpointId(fields["endpoint_id"]),
        project_id=ProjectId(fields["project_id"]),
        volume_id=VolumeId(fields["volume_id"]),
        install=fields["install"],
        settings_digest=fields["settings"],
        pid=fields["pid"],
        spare_name=fields.get("born"),
        cu=fields.get("cu"),
        max_cu=fields.get("max_cu"),
        limits_text=fields.get("limits"),
        preloaded=fields.get("preloaded"),
        pin=fields.get("pin"),
        waiting=fields.get("waiting"),
    )
