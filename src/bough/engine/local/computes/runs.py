"""Which computes were started and not stopped: a small file each, so that any later control finds them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from bough.engine.local.durable_files import write_atomically
from bough.engine.local.folder_index import FolderIndex
from bough.ids import EndpointId, ProjectId, VolumeId

_PRIVATE = "own-"  # computes that serve nobody but us, for a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeRun:
    endpoint_id: EndpointId
    project_id: ProjectId
    volume_id: VolumeId
    install: str
    settings: str  # digest of the settings in force
    pid: int | None  # as launched; the pid file in the volume is the truth
    born: str | None = None  # its name in the warm pool, if it came from there
    cu: float | None = None  # its size now; None: as large as it may be
    max_cu: float | None = None  # how large it may be; None: whoever started it did not note it
    limits: str | None = None  # the settings by its plan; None: whoever started it knew none

    @property
    def cgroup_name(self) -> str:
        """Its control group. One from the warm pool stays in the group it was born in: moving takes time."""
        return self.born or self.endpoint_id


def temporary_name(volume: VolumeId) -> EndpointId:
    """What a compute of our own on the volume is called; no endpoint's name begins so."""
    return EndpointId(_PRIVATE + volume)


def is_temporary(name: str) -> bool:
    return name.startswith(_PRIVATE)


class ComputeRuns:
    """The files are the truth. What is in them is also kept in memory, so that a look at all computes reads no file.

    The modification time of the folder shows changes by other processes: every file is renamed into its place. What
    another process changes in the same few milliseconds as we do may be missed; while control runs it is the only one
    that writes here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()  # computes are started, stopped and looked at by several threads
        self._files = FolderIndex(folder, _read)
        self._by_volume: dict[VolumeId, dict[EndpointId, ComputeRun]] | None = None  # None: to be made again

    def get(self, endpoint: EndpointId) -> ComputeRun | None:
        with self._lock:
            return self._known().get(_file_name(endpoint))

    def put(self, run: ComputeRun) -> None:
        name = _file_name(run.endpoint_id)
        with self._lock:
            before = self._known().get(name)
            write_atomically(self._folder / name, json.dumps(asdict(run)))
            self._files.put(name, run)
            self._move(before, run)

    def remove(self, endpoint: EndpointId) -> None:
        name = _file_name(endpoint)
        with self._lock:
            before = self._known().get(name)
            (self._folder / name).unlink(missing_ok=True)
            self._files.put(name, None)
            self._move(before, None)

    def remove_corrupt(self) -> None:
        """What a crash left half written, or a power cut without its text, is gone. Only for a start."""
        for path in self._folder.iterdir():
            if path.suffix != ".json" or self.get(EndpointId(path.stem)) is None:
                path.unlink()

    def list_all(self) -> list[ComputeRun]:
        with self._lock:
            return list(self._known().values())

    def list_on_volume(self, volume: VolumeId) -> list[ComputeRun]:
        """The runs of computes on a volume."""
        with self._lock:
            known = self._known()
            if self._by_volume is None:
                self._by_volume = {}
                for run in known.values():
                    self._by_volume.setdefault(run.volume_id, {})[run.endpoint_id] = run
            return list(self._by_volume.get(volume, {}).values())

    def _move(self, before: ComputeRun | None, now: ComputeRun | None) -> None:
        if self._by_volume is None:
            return
        if before is not None:
            others = self._by_volume.get(before.volume_id, {})
            others.pop(before.endpoint_id, None)
            if not others:
                self._by_volume.pop(before.volume_id, None)
        if now is not None:
            self._by_volume.setdefault(now.volume_id, {})[now.endpoint_id] = now

    def _known(self) -> Mapping[str, ComputeRun]:
        if self._files.refresh():
            self._by_volume = None
        return self._files.entries


def _file_name(endpoint: EndpointId) -> str:
    return f"{endpoint}.json"


def _read(path: Path) -> ComputeRun | None:
    if path.suffix != ".json":
        return None
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:  # a power cut left it empty; the compute is gone with the power
        return None
    return ComputeRun(
        endpoint_id=EndpointId(fields["endpoint_id"]),
        project_id=ProjectId(fields["project_id"]),
        volume_id=VolumeId(fields["volume_id"]),
        install=fields["install"],
        settings=fields["settings"],
        pid=fields["pid"],
        born=fields.get("born"),
        cu=fields.get("cu"),
        max_cu=fields.get("max_cu"),
        limits=fields.get("limits"),
    )
