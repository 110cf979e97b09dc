"""When a task looks at each endpoint again: ever more rarely while nothing happens there, and at once after use."""

from collections.abc import Collection
from dataclasses import dataclass

from bough import clock
from bough.control.activity import Activity
from bough.ids import EndpointId

STEADY_LOOKS = 12  # in a row at which nothing happened; from then on each pause is twice the one before


@dataclass(slots=True)
class _Looked:
    at: float
    quiet_looks: int
    due: float


class LookSchedule:
    def __init__(self, activity: Activity, *, every: float, longest: float) -> None:
        """`every` is the task's own interval in seconds, `longest` the pause that is never exceeded."""
        self._activity = activity
        self._every = every
        self._longest = longest
        self._looked: dict[EndpointId, _Looked] = {}

    def is_due(self, endpoint: EndpointId) -> bool:
        looked = self._looked.get(endpoint)
        if looked is None or self._activity.is_used_since(endpoint, looked.at):
            return True
        return looked.due <= clock.monotonic()

    def note(self, endpoint: EndpointId, *, is_quiet: bool) -> None:
        """It was looked at now. `is_quiet`: there was nothing to do, and nothing is under way."""
        now, before = clock.monotonic(), self._looked.get(endpoint)
        is_used = before is not None and self._activity.is_used_since(endpoint, before.at)
        quiet_looks = before.quiet_looks + 1 if before is not None and is_quiet and not is_used else 0
        self._looked[endpoint] = _Looked(now, quiet_looks, now + self._pause(quiet_looks))

    def retain(self, endpoints: Collection[EndpointId]) -> None:
        """All others are gone, or sleep."""
        self._looked = {each: looked for each, looked in self._looked.items() if each in endpoints}

    def _pause(self, quiet_looks: int) -> float:
        if quiet_looks <= STEADY_LOOKS:
            return 0.0  # the task's own interval is the pause
        return min(self._longest, self._every * 2.0 ** min(quiet_looks - STEADY_LOOKS, 20))
