"""Measures milliseconds between marks and in total; all rounds append to the same lists."""

import time

from bench.promise import Measurement

TOTAL = "in all"
Times = dict[str, list[float]]  # name → milliseconds, round by round; a `defaultdict(list)`


class Stopwatch:
    def __init__(self, times: Times) -> None:
        self._times = times
        self.began = self.last = time.perf_counter()

    def mark(self, what: str) -> None:
        now = time.perf_counter()
        self._times[what].append((now - self.last) * 1e3)
        self.last = now

    def skip(self) -> None:
        """Exclude the time since the last mark."""
        now = time.perf_counter()
        self.began += now - self.last
        self.last = now

    def stop(self) -> None:
        self._times[TOTAL].append((time.perf_counter() - self.began) * 1e3)


def make_measurements(who: str, times: Times) -> dict[str, Measurement]:
    """Return measurements by name, the total first."""
    return {
        what: Measurement(name=f"{who}: {what}", unit="ms", samples=tuple(samples))
        for what, samples in sorted(times.items(), key=lambda item: item[0] != TOTAL)
    }
