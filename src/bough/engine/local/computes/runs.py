"""Which computes were started and not stopped: a small file each, so that any later control finds them."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bough.engine.local.durable import write_atomically
from bough.ids import EndpointId, ProjectId, VolumeId

_PRIVATE = "own-"  # computes that serve nobody but us, for a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
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
    def group(self) -> str:
        """Its control group. One from the warm pool stays in the group it was born in: moving takes time."""
        return self.born or self.endpoint_id


def private_name(volume: VolumeId) -> EndpointId:
    """What a compute of our own on the volume is called; no endpoint's name begins so."""
    return EndpointId(_PRIVATE + volume)


def is_private(name: str) -> bool:
    return name.startswith(_PRIVATE)


class Runs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, endpoint: EndpointId) -> Run | None:
        try:
            fields = json.loads(self._path(endpoint).read_text())
        except FileNotFoundError:
            return None
        except ValueError:  # a power cut left it empty; the compute is gone with the power
            return None
        return Run(
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

    def put(self, run: Run) -> None:
        write_atomically(self._path(run.endpoint_id), json.dumps(asdict(run)))

    def remove(self, endpoint: EndpointId) -> None:
        self._path(endpoint).unlink(missing_ok=True)

    def ensure_tidy(self) -> None:
        """What a crash left half written, or a power cut without its text, is gone. Only for a start."""
        for path in self._folder.iterdir():
            if path.suffix != ".json" or self.get(EndpointId(path.stem)) is None:
                path.unlink()

    def all(self) -> Iterator[Run]:
        for path in self._folder.glob("*.json"):
            run = self.get(EndpointId(path.stem))
            if run is not None:
                yield run

    def _path(self, endpoint: EndpointId) -> Path:
        return self._folder / f"{endpoint}.json"
