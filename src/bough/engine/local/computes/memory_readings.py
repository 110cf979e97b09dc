"""The memory of computes, read again only when it may have changed: reading it takes most of the time of a sample."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bough import clock
from bough.ids import EndpointId

IDLE_CPU_SECONDS = 0.03  # of a compute without clients, since the last reading
MAX_AGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Reading:
    run: str
    cpu_seconds: float
    at: float
    memory_bytes: int


class MemoryReadings:
    def __init__(self) -> None:
        self._known: dict[EndpointId, _Reading] = {}

    def get(self, endpoint: EndpointId, run: str, cpu_seconds: float, read: Callable[[], int]) -> int:
        """Return the last reading if this run of the compute has hardly used CPU time since."""
        now, known = clock.monotonic(), self._known.get(endpoint)
        if known is not None and known.run == run:
            is_idle = cpu_seconds - known.cpu_seconds < IDLE_CPU_SECONDS
            if is_idle and now - known.at < MAX_AGE_SECONDS:
                return known.memory_bytes
        self._known[endpoint] = _Reading(run, cpu_seconds, now, read())
        return self._known[endpoint].memory_bytes

    def retain(self, endpoints: Collection[EndpointId]) -> None:
        """Forget the computes that do not run."""
        self._known = {each: reading for each, reading in self._known.items() if each in endpoints}
