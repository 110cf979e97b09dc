"""Prometheus metrics of operations: results, failures, crashes and durations."""

from prometheus_client import Counter, Histogram

from bough.domain.operation import Operation

_ENDED = Counter("bough_operations_ended_total", "Operations that ended", ["action", "status"])
_FAILURES = Counter("bough_operation_step_failures_total", "Steps that failed, including retries", ["action"])
_SECONDS = Histogram(
    "bough_operation_seconds",
    "Time from the request to the end of the operation",
    ["action"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300),
)
_CRASHES = Counter("bough_operation_crashes_total", "Steps during which a control process died", ["action"])


def count_crash(operation: Operation) -> None:
    _CRASHES.labels(operation.stored_action).inc()


def count_step_failure(operation: Operation) -> None:
    _FAILURES.labels(operation.stored_action).inc()


def observe_end(operation: Operation) -> None:
    assert operation.ended_at is not None
    _ENDED.labels(operation.stored_action, operation.status).inc()
    _SECONDS.labels(operation.stored_action).observe((operation.ended_at - operation.created_at).total_seconds())
