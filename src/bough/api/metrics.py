"""What Prometheus may read: requests here, operations and computes when it asks."""

from collections.abc import Mapping

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

REQUESTS = Counter("bough_http_requests_total", "Requests answered", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "bough_http_request_seconds",
    "Time to answer",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
_STATE = Gauge("bough_state", "Counts of the installation", ["thing"])


def text(counts: Mapping[str, int]) -> bytes:
    for thing, count in counts.items():
        _STATE.labels(thing).set(count)
    return generate_latest(REGISTRY)
