"""Schedules the inspections of endpoints: less and less often while idle, at once after use."""

from collections.abc import Collection
from dataclasses import dataclass

from bough import clock
from bough.control.gateway.activity import EndpointActivity
from bough.ids import EndpointId

IDLE_THRESHOLD = 12  # idle inspections in a row after which the interval doubles each time


@dataclass(slots=True)
class _Inspected:
    at: float
    idle_inspections: int
    due: float


class InspectionSchedule:
    def __init__(self, activity: EndpointActivity, *, interval: float, max_interval: float) -> None:
        """`interval` is the task's own interval in seconds; `max_interval` is the upper limit."""
        self._activity = activity
        self._interval = interval
        self._max_interval = max_interval
        self._inspected: dict[EndpointId, _Inspected] = {}

    def is_due(self, endpoint: EndpointId) -> bool:
        last = self._inspected.get(endpoint)
        if last is None or self._activity.was_used_since(endpoint, last.at):
            return True
        return last.due <= clock.monotonic()

    def record(self, endpoint: EndpointId, *, is_idle: bool) -> None:
        """Record an inspection. `is_idle`: there was nothing to do and nothing was running."""
        now, before = clock.monotonic(), self._inspected.get(endpoint)
        is_used = before is not None and self._activity.was_used_since(endpoint, before.at)
        idle_count = before.idle_inspections + 1 if before is not None and is_idle and not is_used else 0
        self._inspected[endpoint] = _Inspected(now, idle_count, now + self._pause(idle_count))

    def retain(self, endpoints: Collection[EndpointId]) -> None:
        """Forget all other endpoints, which are deleted or suspended."""
        self._inspected = {each: inspected for each, inspected in self._inspected.items() if each in endpoints}

    def _pause(self, idle_count: int) -> float:
        if idle_count <= IDLE_THRESHOLD:
            return 0.0  # the task's own interval is enough
        return min(self._max_interval, self._interval * 2.0 ** min(idle_count - IDLE_THRESHOLD, 20))
