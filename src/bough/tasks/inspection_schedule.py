"""When a task looks at each endpoint again: ever more rarely while nothing happens there, and at once after use."""

from collections.abc import Collection
from dataclasses import dataclass

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.ids import EndpointId

IDLE_THRESHOLD = 12  # in a row at which nothing happened; from then on each pause is twice the one before


@dataclass(slots=True)
class _Inspected:
    at: float
    idle_inspections: int
    due: float


class InspectionSchedule:
    def __init__(self, activity: EndpointActivity, *, interval: float, max_interval: float) -> None:
        """`every` is the task's own interval in seconds, `longest` the pause that is never exceeded."""
        self._activity = activity
        self._every = interval
        self._longest = max_interval
        self._inspected: dict[EndpointId, _Inspected] = {}

    def is_due(self, endpoint: EndpointId) -> bool:
        looked = self._inspected.get(endpoint)
        if looked is None or self._activity.was_used_since(endpoint, looked.at):
            return True
        return looked.due <= clock.monotonic()

    def record(self, endpoint: EndpointId, *, is_idle: bool) -> None:
        """It was looked at now. `is_quiet`: there was nothing to do, and nothing is under way."""
        now, before = clock.monotonic(), self._inspected.get(endpoint)
        is_used = before is not None and self._activity.was_used_since(endpoint, before.at)
        quiet_looks = before.idle_inspections + 1 if before is not None and is_idle and not is_used else 0
        self._inspected[endpoint] = _Inspected(now, quiet_looks, now + self._pause(quiet_looks))

    def retain(self, endpoints: Collection[EndpointId]) -> None:
        """All others are gone, or sleep."""
        self._inspected = {each: looked for each, looked in self._inspected.items() if each in endpoints}

    def _pause(self, quiet_looks: int) -> float:
        if quiet_looks <= IDLE_THRESHOLD:
            return 0.0  # the task's own interval is the pause
        return min(self._longest, self._every * 2.0 ** min(quiet_looks - IDLE_THRESHOLD, 20))
