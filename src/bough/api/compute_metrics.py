"""Metrics of computes, their pools and the storage, collected for each scrape.

Only endpoints that run, are in transition or failed to start have time series, so their number depends on activity
and not on how many endpoints exist. The series of a compute end when it stops.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bough.api import history_metrics
from bough.control.services import Services
from bough.domain.endpoint import Endpoint, EndpointState
from bough.domain.pooler import PoolStats
from bough.engine.port import EngineError, Observation
from bough.ids import EndpointId


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSample:
    observed: Observation | None  # None: the engine did not respond
    counts: Mapping[EndpointState, int]
    states: Mapping[EndpointId, str]


async def sample_computes(services: Services) -> ComputeSample:
    observed = await _observe(services)
    async with services.store.read(slow=True) as rows:
        counts = await rows.endpoints.count_by_state()
        failed = await rows.endpoints.list_failed()
        running_or_changing = {
            each.id: each for each in [*await rows.endpoints.list_active(), *await rows.endpoints.list_in_transition()]
        }
    running = observed.running_endpoints if observed else frozenset(running_or_changing)
    states = {each.id: "failed" for each in failed}
    states |= {each.id: _state(each, is_running=each.id in running) for each in running_or_changing.values()}
    return ComputeSample(observed=observed, counts=counts, states=states)


async def _observe(services: Services) -> Observation | None:
    """Omit what the engine cannot report, because metrics are most needed when something is wrong."""
    try:
        return await services.engine.observe()
    except EngineError:
        return None


def _state(endpoint: Endpoint, *, is_running: bool) -> str:
    if endpoint.pending_state is not None:
        return "starting" if endpoint.pending_state is EndpointState.ACTIVE else "stopping"
    return "active" if is_running else "gone"  # it crashed and will be restarted


def build_families(services: Services, sample: ComputeSample) -> Iterator[Metric]:
    yield _by_label(
        "bough_computes",
        "Number of endpoints by state",
        "state",
        {state: sample.counts.get(state, 0) for state in EndpointState},
    )
    yield _states(sample.states)
    yield _by_label(
        "bough_gateway_connections",
        "Open client connections, for endpoints that have any",
        "endpoint_id",
        services.activity.connections,
    )
    yield from _pools(services.activity.pools)
    yield from _compute_usage(services, sample.observed)
    yield from _storage(services, sample.observed)
    yield from history_metrics.build_families(services.history_measurements)


def _states(states: Mapping[EndpointId, str]) -> Metric:
    family = GaugeMetricFamily(
        "bough_compute_state",
        "Endpoints that run, are in transition or failed to start",
        labels=["endpoint_id", "state"],
    )
    for endpoint, state in states.items():
        family.add_metric([endpoint, state], 1)
    return family


def _pools(pools: Mapping[EndpointId, PoolStats]) -> Iterator[Metric]:
    clients = GaugeMetricFamily(
        "bough_pool_clients", "Clients of the endpoint's pools", labels=["endpoint_id", "state"]
    )
    servers = GaugeMetricFamily(
        "bough_pool_servers", "Server connections of the endpoint's pools", labels=["endpoint_id", "state"]
    )
    for endpoint, stats in pools.items():
        clients.add_metric([endpoint, "active"], stats.clients_active)
        clients.add_metric([endpoint, "waiting"], stats.clients_waiting)
        clients.add_metric([endpoint, "idle"], stats.clients_idle)
        servers.add_metric([endpoint, "active"], stats.servers_active)
        servers.add_metric([endpoint, "idle"], stats.servers_idle)
    yield clients
    yield servers


def _compute_usage(services: Services, observed: Observation | None) -> Iterator[Metric]:
    running = observed.running_endpoints if observed else frozenset()
    usage = {endpoint: used for endpoint in sorted(running) if (used := services.compute_measurements.get(endpoint))}
    yield _by_label(
        "bough_compute_memory_bytes",
        "Memory of all processes of the compute, with shared memory counted once",
        "endpoint_id",
        {endpoint: used.memory_bytes for endpoint, used in usage.items()},
    )
    yield _counters(
        "bough_compute_cpu_seconds",
        "CPU time of all processes of the compute since its start, including ended ones",
        "endpoint_id",
        {endpoint: used.cpu_seconds for endpoint, used in usage.items()},
    )
    yield _by_label(
        "bough_compute_size_cu",
        "Current size of the compute between its autoscaling limits",
        "endpoint_id",
        {endpoint: cu for endpoint, cu in (observed.cu_by_endpoint if observed else {}).items() if endpoint in running},
    )
    yield _by_label(
        "bough_compute_started_timestamp_seconds",
        "Start time of the compute",
        "endpoint_id",
        {endpoint: used.started_at.timestamp() for endpoint, used in usage.items()},
    )
    yield _by_label(
        "bough_replica_lag_bytes",
        "WAL that the read replica has not replayed",
        "endpoint_id",
        {endpoint: lag for endpoint, used in usage.items() if (lag := used.replica_lag_bytes) is not None},
    )
    yield _by_label(
        "bough_replica_lag_seconds",
        "Age of the last commit that the read replica has replayed; 0 if it has replayed everything",
        "endpoint_id",
        {endpoint: age for endpoint, used in usage.items() if (age := used.replica_lag_seconds) is not None},
    )


def _storage(services: Services, observed: Observation | None) -> Iterator[Metric]:
    refuses = services.engine.capabilities().creation_blocked_reason is not None
    yield GaugeMetricFamily(
        "bough_storage_refuses_new", "1 while nothing new can be created because storage is low", refuses
    )
    if observed is not None:
        yield GaugeMetricFamily("bough_storage_free_bytes", "Free bytes in the storage of volumes", observed.free_bytes)
        yield GaugeMetricFamily("bough_storage_total_bytes", "Size of the storage of volumes", observed.total_bytes)
        yield GaugeMetricFamily("bough_computes_spare", "Computes in the warm pool", len(observed.spare_endpoints))


def _by_label(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=[label])
    for label_value, sample_value in values.items():
        family.add_metric([label_value], sample_value)
    return family


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return metrics that only increase. The exposition adds `_total` to the name."""
    family = CounterMetricFamily(name, help_text, labels=[label])
    for label_value, sample_value in values.items():
        family.add_metric([label_value], sample_value)
    return family
