"""What was last measured of each running compute: noted by a task, read by whoever shows it."""

from collections.abc import Mapping

from bough.engine.port import ComputeUsage
from bough.ids import EndpointId


class ComputeMeasurements:
    def __init__(self) -> None:
        self._usage: Mapping[EndpointId, ComputeUsage] = {}

    def replace_all(self, usage: Mapping[EndpointId, ComputeUsage]) -> None:
        """All there is to know now: what was noted before is forgotten."""
        self._usage = dict(usage)

    def get(self, endpoint: EndpointId) -> ComputeUsage | None:
        return self._usage.get(endpoint)
