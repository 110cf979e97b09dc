"""The last measurements of running computes and of lineages' history. Tasks record them; the metrics show them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bough.engine.port import ComputeUsage
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId


class ComputeMeasurements:
    def __init__(self) -> None:
        self._usage: Mapping[EndpointId, ComputeUsage] = {}

    def replace_all(self, usage: Mapping[EndpointId, ComputeUsage]) -> None:
        """All there is to know now: what was noted before is forgotten."""
        self._usage = dict(usage)

    def get(self, endpoint: EndpointId) -> ComputeUsage | None:
        return self._usage.get(endpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMeasurement:
    project_id: ProjectId
    branch_id: BranchId | None  # whose history it is; None: nobody knows
    history_bytes: int
    waiting_bytes: int
    problem: str | None = None  # why it falls behind, in a sentence


class HistoryMeasurements:
    def __init__(self) -> None:
        self._known: dict[VolumeId, HistoryMeasurement] = {}

    def record(self, volume_id: VolumeId, measurement: HistoryMeasurement) -> None:
        self._known[volume_id] = measurement

    def get(self, volume_id: VolumeId) -> HistoryMeasurement | None:
        return self._known.get(volume_id)

    def retain(self, volume_ids: Collection[VolumeId]) -> None:
        """All others are gone."""
        self._known = {volume_id: figure for volume_id, figure in self._known.items() if volume_id in volume_ids}

    def with_problems(self) -> Mapping[VolumeId, HistoryMeasurement]:
        return {volume_id: figure for volume_id, figure in self._known.items() if figure.problem is not None}

    @property
    def waiting_bytes(self) -> int:
        """Of all together."""
        return sum(figure.waiting_bytes for figure in self._known.values())

    @property
    def history_bytes(self) -> int:
        return sum(figure.history_bytes for figure in self._known.values())
