"""The last measurements of running computes and of lineages' history. Tasks record them; the metrics show them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bough.engine.port import ComputeUsage
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId


class ComputeMeasurements:
    def __init__(self) -> None:
        self._usage: Mapping[EndpointId, ComputeUsage] = {}

    def replace_all(self, usage: Mapping[EndpointId, ComputeUsage]) -> None:
        """Replace all earlier measurements."""
        self._usage = dict(usage)

    def get(self, endpoint: EndpointId) -> ComputeUsage | None:
        return self._usage.get(endpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMeasurement:
    project_id: ProjectId
    branch_id: BranchId | None  # the branch whose history it is; None if unknown
    history_bytes: int
    waiting_bytes: int
    problem: str | None = None  # why it falls behind, as a sentence


class HistoryMeasurements:
    def __init__(self) -> None:
        self._known: dict[VolumeId, HistoryMeasurement] = {}

    def record(self, volume_id: VolumeId, measurement: HistoryMeasurement) -> None:
        self._known[volume_id] = measurement

    def get(self, volume_id: VolumeId) -> HistoryMeasurement | None:
        return self._known.get(volume_id)

    def retain(self, volume_ids: Collection[VolumeId]) -> None:
        """Forget all other volumes."""
        self._known = {
            volume_id: measurement for volume_id, measurement in self._known.items() if volume_id in volume_ids
        }

    def with_problems(self) -> Mapping[VolumeId, HistoryMeasurement]:
        return {
            volume_id: measurement for volume_id, measurement in self._known.items() if measurement.problem is not None
        }

    @property
    def waiting_bytes(self) -> int:
        """Return the total of all volumes."""
        return sum(each.waiting_bytes for each in self._known.values())

    @property
    def history_bytes(self) -> int:
        return sum(each.history_bytes for each in self._known.values())
