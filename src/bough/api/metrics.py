"""Metrics for Prometheus: HTTP requests, and rendering of all metrics of the process."""

from collections.abc import Iterable, Mapping

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

REQUESTS = Counter("bough_http_requests_total", "HTTP requests", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "bough_http_request_seconds",
    "Duration of HTTP requests",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
_STATE = Gauge("bough_state", "Number of objects in the installation", ["thing"])


class _Families:
    """Metrics collected for one scrape, used like a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def render(counts: Mapping[str, int], families: Iterable[Metric]) -> bytes:
    for thing, count in counts.items():
        _STATE.labels(thing).set(count)
    return generate_latest(REGISTRY) + generate_latest(_Families(families))
