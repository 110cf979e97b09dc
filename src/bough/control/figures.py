"""What was last measured of each running compute: noted by a task, read by whoever shows it."""

from collections.abc import Mapping

from bough.engine.port import Usage
from bough.ids import EndpointId


class Figures:
    def __init__(self) -> None:
        self._usage: Mapping[EndpointId, Usage] = {}

    def note(self, usage: Mapping[EndpointId, Usage]) -> None:
        """All there is to know now: what was noted before is forgotten."""
        self._usage = dict(usage)

    def of(self, endpoint: EndpointId) -> Usage | None:
        return self._usage.get(endpoint)
