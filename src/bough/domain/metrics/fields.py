"""The metrics that are kept over time: the meaning, the unit and the plausible range of each.

Stored values are whole numbers, so that sums are exact in any order: a value times the `scale` of its metric.
"""

from dataclasses import dataclass
from enum import StrEnum

MACHINE_SERIES = "machine"  # the name of the machine's series; no endpoint id has this form
_MAX_COUNT = 10**9  # per second: more than a server can do
_MAX_BYTES = 10**12  # per second
_MAX_SIZE = 2**60  # bytes
_MAX_CONNECTIONS = 10**6
_MAX_CORES = 10**4


class MetricKind(StrEnum):
    COUNTER = "counter"  # what happened: values are added
    GAUGE = "gauge"  # what there was: average and maximum are kept


class BranchRule(StrEnum):
    """How the values of a branch's computes are combined."""

    SUM = "sum"
    MAXIMUM = "maximum"  # they share what is measured, or the worst one matters


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricField:
    name: str
    unit: str
    kind: MetricKind
    limit: int  # stored values above it are not plausible; of counters: per second
    scale: int = 1
    branch_rule: BranchRule = BranchRule.SUM
    has_average: bool = True  # of gauges, which always have a maximum


def _counter(name: str, unit: str, limit: int = _MAX_COUNT, scale: int = 1) -> MetricField:
    return MetricField(name=name, unit=unit, kind=MetricKind.COUNTER, limit=limit * scale, scale=scale)


def _gauge(name: str, unit: str, limit: int, scale: int = 1) -> MetricField:
    return MetricField(name=name, unit=unit, kind=MetricKind.GAUGE, limit=limit * scale, scale=scale)


def _highest(name: str, unit: str, limit: int, scale: int = 1) -> MetricField:
    """Return a gauge of which only the maximum matters, also among the computes of a branch."""
    return MetricField(
        name=name,
        unit=unit,
        kind=MetricKind.GAUGE,
        limit=limit * scale,
        scale=scale,
        branch_rule=BranchRule.MAXIMUM,
        has_average=False,
    )


COMPUTE_FIELDS = (
    _counter("cpu_seconds", "seconds", _MAX_CORES, 1000),
    _gauge("cpu_cores", "cores", _MAX_CORES, 1000),
    _gauge("memory_bytes", "bytes", _MAX_SIZE),
    _gauge("connections_direct", "connections", _MAX_CONNECTIONS),
    _gauge("connections_pooled", "connections", _MAX_CONNECTIONS),
    _gauge("connections_of_pools", "connections", _MAX_CONNECTIONS),
    _counter("transactions_committed", "transactions"),
    _counter("transactions_rolled_back", "transactions"),
    _counter("rows_returned", "rows"),
    _counter("rows_fetched", "rows"),
    _counter("rows_inserted", "rows"),
    _counter("rows_updated", "rows"),
    _counter("rows_deleted", "rows"),
    _counter("blocks_hit", "blocks"),
    _counter("blocks_read", "blocks"),
    _counter("wal_bytes", "bytes", _MAX_BYTES),
    _highest("storage_bytes", "bytes", _MAX_SIZE),
    _highest("replica_lag_bytes", "bytes", _MAX_SIZE),
    _highest("replica_lag_seconds", "seconds", 10**9, 1000),
)
MACHINE_FIELDS = (
    _counter("cpu_seconds", "seconds", _MAX_CORES, 1000),
    _gauge("cpu_cores", "cores", _MAX_CORES, 1000),
    _highest("cpu_cores_total", "cores", _MAX_CORES),
    _gauge("load_average", "processes", _MAX_CONNECTIONS, 100),
    _gauge("memory_used_bytes", "bytes", _MAX_SIZE),
    _highest("memory_total_bytes", "bytes", _MAX_SIZE),
    _gauge("disk_used_bytes", "bytes", _MAX_SIZE),
    _highest("disk_total_bytes", "bytes", _MAX_SIZE),
    _gauge("computes_running", "computes", _MAX_CONNECTIONS),
)
# The counters that a compute's Postgres keeps itself; `postgres.database_statistics` reads them.
POSTGRES_COUNTERS = tuple(
    field.name
    for field in COMPUTE_FIELDS
    if field.kind is MetricKind.COUNTER and field.name not in ("cpu_seconds", "wal_bytes")
)
