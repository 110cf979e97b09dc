"""Prometheus metrics of gateway traffic, pool waits and wakes."""

from collections.abc import Iterable

from prometheus_client import Counter, Histogram

from bough.domain.gateway_reports import EndpointReport
from bough.ids import EndpointId

_BYTES = Counter("bough_gateway_bytes_total", "Bytes between clients and computes", ["direction"])
_OPENED = Counter("bough_gateway_connections_opened_total", "Connections that clients opened")
_WAITS = Counter(
    "bough_pool_waits_total", "How often clients of a pool waited for a server connection", ["endpoint_id"]
)
_WAITED = Counter(
    "bough_pool_wait_seconds_total", "How long clients of a pool waited for server connections", ["endpoint_id"]
)
_WAKES = Counter("bough_wakes_total", "Computes started because a client connected", ["outcome"])
_WAKE_SECONDS = Histogram(
    "bough_wake_seconds",
    "Time from the wake request until the compute accepts connections",
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)


def count_traffic(reports: Iterable[EndpointReport]) -> None:
    for each in reports:
        _BYTES.labels("in").inc(each.bytes_in)
        _BYTES.labels("out").inc(each.bytes_out)
        _OPENED.inc(each.opened)


def count_pool_waits(endpoint: EndpointId, times: int, seconds: float) -> None:
    """Also called with zero: Prometheus computes a rate only for a series that it has seen before."""
    _WAITS.labels(endpoint).inc(times)
    _WAITED.labels(endpoint).inc(seconds)


def observe_wake(seconds: float) -> None:
    _WAKES.labels("woke").inc()
    _WAKE_SECONDS.observe(seconds)


def count_failed_wake() -> None:
    _WAKES.labels("failed").inc()
