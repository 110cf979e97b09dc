"""Prometheus metrics of compute starts."""

from typing import Literal

from prometheus_client import Counter, Histogram

StartKind = Literal["new", "wake", "warm"]  # first start of a volume, later start of a volume, from the warm pool

_SECONDS = Histogram(
    "bough_compute_start_seconds",
    "Time from the request until a compute accepts connections and has its roles and databases",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
_FAILED = Counter("bough_compute_starts_failed_total", "Compute starts that failed")


def record_start(kind: StartKind, seconds: float) -> None:
    _SECONDS.labels(kind).observe(seconds)


def record_start_failure() -> None:
    _FAILED.inc()
