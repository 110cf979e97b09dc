"""The CPU time that computes and the machine used since the last sample that was stored."""

from collections.abc import Collection
from dataclasses import dataclass

from bough import clock
from bough.domain.metrics.compute_values import cpu_values


@dataclass(frozen=True, slots=True)
class _CpuTime:
    run: str
    seconds: float
    at: float


class CpuTimes:
    def __init__(self) -> None:
        self._stored: dict[str, _CpuTime] = {}
        self._latest: dict[str, _CpuTime] = {}
        self._stored_at: float | None = None  # when a round was last stored

    def measure(self, series: str, run: str, seconds: float) -> dict[str, float]:
        """Return the values of this sample. They are unknown in the first round after a start of control."""
        now = clock.monotonic()
        self._latest[series] = _CpuTime(run, seconds, now)
        before = self._stored.get(series)
        if before is not None and before.run == run:
            # A process that ends while it is measured is missed until the next sample.
            self._latest[series] = _CpuTime(run, max(seconds, before.seconds), now)
            return cpu_values(before.seconds, seconds, now - before.at)
        return {} if self._stored_at is None else cpu_values(0.0, seconds, now - self._stored_at)

    def commit(self, stored: Collection[str]) -> None:
        """Count from this sample on, for the series that were stored. Forget those that were not measured."""
        kept = {each: time for each, time in self._stored.items() if each in self._latest}
        self._stored = kept | {each: time for each, time in self._latest.items() if each in stored}
        self._latest = {}
        self._stored_at = clock.monotonic()
