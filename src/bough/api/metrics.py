"""What Prometheus may read: requests here, operations and starts elsewhere, the rest when it asks."""

from collections.abc import Iterable, Mapping

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

REQUESTS = Counter("bough_http_requests_total", "Requests answered", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "bough_http_request_seconds",
    "Time to answer",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
_STATE = Gauge("bough_state", "Counts of the installation", ["thing"])


class _Families:
    """Metrics that are made for one reader, in the place of a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def render(counts: Mapping[str, int], families: Iterable[Metric]) -> bytes:
    for thing, count in counts.items():
        _STATE.labels(thing).set(count)
    return generate_latest(REGISTRY) + generate_latest(_Families(families))
