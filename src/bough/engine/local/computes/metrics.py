"""How long computes take to start, and how often they do not, for Prometheus."""

from typing import Literal

from prometheus_client import Counter, Histogram

StartKind = Literal["new", "wake", "warm"]  # a first start, one of a volume that ran before, one from the warm pool

_SECONDS = Histogram(
    "bough_compute_start_seconds",
    "From the wish to a compute that accepts connections and has its roles and databases",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
_FAILED = Counter("bough_compute_starts_failed_total", "Starts of computes that failed")


def record_start(kind: StartKind, seconds: float) -> None:
    _SECONDS.labels(kind).observe(seconds)


def record_start_failure() -> None:
    _FAILED.inc()
