"""Figures of each compute for Prometheus, read off real ones."""

import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from bough import clock
from bough.access.metrics_token import load_metrics_token
from bough.control.platform.measurements import HistoryMeasurement
from bough.domain.endpoint import EndpointState
from bough.domain.gateway_reports import EndpointReport, PoolReport
from bough.engine.local.images.image import Image
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.reconcile_computes import ReconcileComputes
from support import api_app as fronts
from support import storage
from support.api_app import ApiApp
from support.api_client import create_caller
from support.platform import Platform, open_platform_in

MB = 1024**2

Figures = dict[str, dict[tuple[str, ...], float]]


async def figures(app: ApiApp) -> Figures:
    """Name → values of its labels, in the order of their names → figure."""
    async with app.client(load_metrics_token(app.settings)) as client:
        response = await client.get("http://bough/metrics")
    found: Figures = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


async def measure(app: ApiApp) -> None:
    platform = app.platform
    await MeasureBranches(
        platform.store, platform.engine, app.services.compute_measurements, platform.services.activity
    ).run()


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def running_api_app() -> AsyncIterator[ApiApp]:
    """A platform of its own, for its work is done here and its computes run."""
    async with fronts.open_api_app() as created:
        yield created


@pytest_asyncio.fixture(loop_scope="session")
async def endpoint(running_api_app: ApiApp) -> EndpointId:
    """One that runs and was measured."""
    created = await (await create_caller(running_api_app)).create_project()
    await running_api_app.platform.run_operations()
    await measure(running_api_app)
    return EndpointId(created["endpoints"][0]["id"])


async def test_a_running_compute_has_its_state_memory_time_and_start(
    running_api_app: ApiApp, endpoint: EndpointId
) -> None:
    async with running_api_app.platform.connect(endpoint, "neondb_owner", "neondb") as client:
        await client.fetchval("select count(*) from generate_series(1, 3000000)")  # else it may have taken no time
    await measure(running_api_app)
    seen = await figures(running_api_app)
    assert seen["bough_compute_state"][endpoint, "active"] == 1
    assert 5 * MB < seen["bough_compute_memory_bytes"][endpoint,] < 500 * MB
    assert seen["bough_compute_cpu_seconds_total"][endpoint,] > 0
    assert seen["bough_compute_size_cu"][endpoint,] == 0.25
    started = seen["bough_compute_started_timestamp_seconds"][endpoint,]
    assert 0 <= clock.now().timestamp() - started < 3600
    assert seen["bough_computes"]["active",] >= 1


async def test_one_that_stops_takes_its_figures_with_it(running_api_app: ApiApp, endpoint: EndpointId) -> None:
    await running_api_app.platform.engine.ensure_suspended(endpoint)
    seen = await figures(running_api_app)
    assert (endpoint,) not in seen.get("bough_compute_memory_bytes", {})
    assert (endpoint,) not in seen.get("bough_compute_cpu_seconds_total", {})
    assert (endpoint,) not in seen.get("bough_compute_size_cu", {})
    assert (endpoint,) not in seen.get("bough_compute_started_timestamp_seconds", {})
    assert seen["bough_compute_state"][endpoint, "gone"] == 1
    await measure(running_api_app)
    assert running_api_app.services.compute_measurements.get(endpoint) is None


async def test_one_that_changes_says_what_it_becomes(running_api_app: ApiApp) -> None:
    created = await (await create_caller(running_api_app)).create_project()
    waiting = created["endpoints"][0]["id"]
    assert (await figures(running_api_app))["bough_compute_state"][waiting, "starting"] == 1
    await running_api_app.platform.run_operations()


async def test_one_whose_start_failed_says_so_until_it_starts(running_api_app: ApiApp, endpoint: EndpointId) -> None:
    platform = running_api_app.platform
    await platform.engine.ensure_suspended(endpoint)
    async with platform.store.read() as rows:
        row = await rows.endpoints.get(endpoint)
        assert row is not None
        branch = await rows.branches.get(row.project_id, row.branch_id)
        assert branch is not None
    control_file = platform.settings.home / "volumes" / branch.volume_id / "data" / "global" / "pg_control"
    whole = control_file.read_bytes()
    control_file.write_bytes(b"")

    await ReconcileComputes(platform.store, platform.engine, platform.services.queue, platform.services.activity).run()
    await platform.run_operations()
    control_file.write_bytes(whole)
    seen = await figures(running_api_app)
    assert {state for name, state in seen["bough_compute_state"] if name == endpoint} == {"failed"}
    assert seen["bough_computes"]["idle",] >= 1


async def test_sleeping_endpoints_have_no_figures_of_their_own(running_api_app: ApiApp, endpoint: EndpointId) -> None:
    platform = running_api_app.platform
    before = await figures(running_api_app)
    assert endpoint in {name for name, _state in before["bough_compute_state"]}
    async with platform.store.transaction() as rows:
        row = await rows.endpoints.get(endpoint)
        assert row is not None
        await rows.endpoints.save(replace(row, state=EndpointState.IDLE))
    await platform.engine.ensure_suspended(endpoint)
    after = await figures(running_api_app)
    # Without any running compute the metric itself is absent.
    assert endpoint not in {name for name, _state in after.get("bough_compute_state", {})}


async def test_what_gateways_report_and_wakes_are_told(running_api_app: ApiApp, endpoint: EndpointId) -> None:
    before = await figures(running_api_app)
    report = EndpointReport(endpoint=endpoint, bytes_in=5, bytes_out=7, opened=2, connections=3, is_active=True)
    for _ in range(2):  # the second repeats the first
        await running_api_app.services.activity.report("metrics", 1, [report])
    async with running_api_app.platform.background_runner():
        await running_api_app.platform.engine.ensure_suspended(endpoint)
        await running_api_app.platform.inner.gateway_api.wakes.wake(endpoint)
    after = await figures(running_api_app)
    assert after["bough_gateway_connections"][endpoint,] == 3

    def grew(name: str, *labels: str) -> float:
        return after[name][labels] - before.get(name, {}).get(labels, 0)

    assert (grew("bough_gateway_bytes_total", "in"), grew("bough_gateway_bytes_total", "out")) == (5, 7)
    assert grew("bough_gateway_connections_opened_total") == 2
    assert grew("bough_wakes_total", "woke") == grew("bough_wake_seconds_count") == 1


async def test_pools_are_told_by_endpoint_and_state(running_api_app: ApiApp) -> None:
    endpoint = EndpointId.new()  # what was waited at one that is gone meanwhile was waited
    pool = PoolReport(
        clients_active=1,
        clients_waiting=2,
        clients_idle=3,
        servers_active=4,
        servers_idle=5,
        waits=7,
        waited_seconds=0.5,
    )
    report = EndpointReport(endpoint=endpoint, connections=6, is_active=True, pool=pool)
    for _ in range(2):  # the second repeats the first
        await running_api_app.services.activity.report("pools", 1, [report])
    seen = await figures(running_api_app)

    def by_state(name: str) -> dict[str, float]:
        return {state: figure for (where, state), figure in seen.get(name, {}).items() if where == endpoint}

    assert by_state("bough_pool_clients") == {"active": 1, "waiting": 2, "idle": 3}
    assert by_state("bough_pool_servers") == {"active": 4, "idle": 5}
    assert (seen["bough_pool_waits_total"][endpoint,], seen["bough_pool_wait_seconds_total"][endpoint,]) == (7, 0.5)

    await running_api_app.services.activity.report("pools", 2, [EndpointReport(endpoint=endpoint)])
    seen = await figures(running_api_app)
    assert by_state("bough_pool_clients") == by_state("bough_pool_servers") == {}
    assert seen["bough_pool_waits_total"][endpoint,] == 7


async def test_the_storage_tells_its_room(running_api_app: ApiApp) -> None:
    seen = await figures(running_api_app)
    free, total = seen["bough_storage_free_bytes"][()], seen["bough_storage_total_bytes"][()]
    assert 0 < free <= total
    assert seen["bough_storage_refuses_new"][()] == 0


async def test_without_its_storage_the_rest_is_told_all_the_same() -> None:
    with storage.create_empty_home() as home:
        storage.create_home_image(home)
        async with open_platform_in(home.parent, **fronts.NO_LIMITS) as platform:
            app = ApiApp(platform)
            _unmount(home / "storage")
            seen = await figures(app)
            assert seen["bough_storage_refuses_new"][()] == 1
            assert "bough_storage_free_bytes" not in seen
            assert seen["bough_computes"]["active",] == 0
            async with app.client(crashes=True) as client:
                response = await client.get("http://bough/healthz")
            assert response.status_code == 503
            assert "is not mounted" in response.json()["message"]
            _mount_again(platform)


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _mount_again(platform: Platform) -> None:
    """What runs at the end looks for computes there."""
    image = Image.load(platform.settings.home)
    assert image is not None
    image.ensure_mounted()


async def test_histories_have_figures_and_those_in_trouble_have_their_own(running_api_app: ApiApp) -> None:
    seen = await figures(running_api_app)
    assert seen["bough_history_troubles"][()] == 0
    assert "bough_history_behind_bytes" not in seen
    noted = running_api_app.services.history_measurements
    figure = HistoryMeasurement(
        project_id=ProjectId("cool-sea-1"), branch_id=BranchId("br-a"), history_bytes=7, waiting_bytes=5
    )
    noted.record(VolumeId("vol-a"), figure)
    noted.record(VolumeId("vol-b"), replace(figure, problem="The archive command fails."))
    seen = await figures(running_api_app)
    assert seen["bough_history_bytes"][()] == 14
    assert seen["bough_history_waiting_bytes"][()] == 10
    assert seen["bough_history_troubles"][()] == 1
    assert seen["bough_history_behind_bytes"] == {("br-a", "cool-sea-1"): 5}
    noted.retain([])
