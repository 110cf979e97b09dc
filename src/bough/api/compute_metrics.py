"""Figures of each compute, of its pools and of the storage, made anew for every reader.

Only endpoints that run, change or failed to start have figures of their own, so their number
follows what happens, not what is stored; a compute that stops takes its figures with it.
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
    observed: Observation | None  # None: the machine did not say
    counts: Mapping[EndpointState, int]
    states: Mapping[EndpointId, str]


async def sample_computes(services: Services) -> ComputeSample:
    observed = await _observed(services)
    async with services.store.read(slow=True) as rows:
        counts = await rows.endpoints.count_by_state()
        failed = await rows.endpoints.list_failed()
        lively = {
            each.id: each for each in [*await rows.endpoints.list_active(), *await rows.endpoints.list_in_transition()]
        }
    running = observed.running_endpoints if observed else frozenset(lively)
    states = {each.id: "failed" for each in failed}
    states |= {each.id: _state(each, is_running=each.id in running) for each in lively.values()}
    return ComputeSample(observed=observed, counts=counts, states=states)


async def _observed(given: Services) -> Observation | None:
    """Figures are wanted most when something is wrong: what the machine cannot say is left out."""
    try:
        return await given.engine.observe()
    except EngineError:
        return None


def _state(endpoint: Endpoint, *, is_running: bool) -> str:
    if endpoint.pending_state is not None:
        return "starting" if endpoint.pending_state is EndpointState.ACTIVE else "stopping"
    return "active" if is_running else "gone"  # it crashed, and will be started again


def build_families(services: Services, sample: ComputeSample) -> Iterator[Metric]:
    yield _by_label(
        "bough_computes",
        "Endpoints by state",
        "state",
        {state: sample.counts.get(state, 0) for state in EndpointState},
    )
    yield _states(sample.states)
    yield _by_label(
        "bough_gateway_connections",
        "Open connections of clients, at each endpoint that has some",
        "endpoint_id",
        services.activity.connections,
    )
    yield from _pools(services.activity.pools)
    yield from _compute_usage(services, sample.observed)
    yield from _storage(services, sample.observed)
    yield from history_metrics.build_families(services.history_measurements)


def _states(states: Mapping[EndpointId, str]) -> Metric:
    family = GaugeMetricFamily(
        "bough_compute_state", "Endpoints that run, change or failed to start", labels=["endpoint_id", "state"]
    )
    for endpoint, state in states.items():
        family.add_metric([endpoint, state], 1)
    return family


def _pools(pools: Mapping[EndpointId, PoolStats]) -> Iterator[Metric]:
    clients = GaugeMetricFamily("bough_pool_clients", "Clients of an endpoint's pools", labels=["endpoint_id", "state"])
    servers = GaugeMetricFamily("bough_pool_servers", "Their server connections", labels=["endpoint_id", "state"])
    for endpoint, now in pools.items():
        clients.add_metric([endpoint, "active"], now.clients_active)
        clients.add_metric([endpoint, "waiting"], now.clients_waiting)
        clients.add_metric([endpoint, "idle"], now.clients_idle)
        servers.add_metric([endpoint, "active"], now.servers_active)
        servers.add_metric([endpoint, "idle"], now.servers_idle)
    yield clients
    yield servers


def _compute_usage(given: Services, observed: Observation | None) -> Iterator[Metric]:
    running = observed.running_endpoints if observed else frozenset()
    usage = {endpoint: used for endpoint in sorted(running) if (used := given.compute_measurements.get(endpoint))}
    yield _by_label(
        "bough_compute_memory_bytes",
        "Memory of all processes of a compute; what they share is counted once",
        "endpoint_id",
        {endpoint: used.memory_bytes for endpoint, used in usage.items()},
    )
    yield _counters(
        "bough_compute_cpu_seconds",
        "Processor time of all processes of a compute since it was started, those that ended too",
        "endpoint_id",
        {endpoint: used.cpu_seconds for endpoint, used in usage.items()},
    )
    yield _by_label(
        "bough_compute_size_cu",
        "Size of a compute between its autoscaling limits",
        "endpoint_id",
        {endpoint: cu for endpoint, cu in (observed.cu_by_endpoint if observed else {}).items() if endpoint in running},
    )
    yield _by_label(
        "bough_compute_started_timestamp_seconds",
        "When a compute was started",
        "endpoint_id",
        {endpoint: used.started_at.timestamp() for endpoint, used in usage.items()},
    )
    yield _by_label(
        "bough_replica_lag_bytes",
        "WAL that a read replica has not replayed",
        "endpoint_id",
        {endpoint: lag for endpoint, used in usage.items() if (lag := used.replica_lag_bytes) is not None},
    )
    yield _by_label(
        "bough_replica_lag_seconds",
        "Age of the last commit that a read replica has replayed; 0 when it has replayed all",
        "endpoint_id",
        {endpoint: age for endpoint, used in usage.items() if (age := used.replica_lag_seconds) is not None},
    )


def _storage(given: Services, observed: Observation | None) -> Iterator[Metric]:
    refuses = given.engine.capabilities().creation_blocked_reason is not None
    yield GaugeMetricFamily("bough_storage_refuses_new", "1 while nothing new is made for want of storage", refuses)
    if observed is not None:
        yield GaugeMetricFamily("bough_storage_free_bytes", "Free bytes where volumes are kept", observed.free_bytes)
        yield GaugeMetricFamily("bough_storage_total_bytes", "Size of where volumes are kept", observed.total_bytes)
        yield GaugeMetricFamily(
            "bough_computes_spare", "Computes that wait in the warm pool", len(observed.spare_endpoints)
        )


def _by_label(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=[label])
    for value, figure in values.items():
        family.add_metric([value], figure)
    return family


def _counters(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    """Of things that only grow; readers see the name with `_total` at its end."""
    family = CounterMetricFamily(name, meaning, labels=[label])
    for value, figure in values.items():
        family.add_metric([value], figure)
    return family
