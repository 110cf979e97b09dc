"""Metrics over time: the answers for endpoints, branches and the machine, and what is refused."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from bough import clock
from bough.domain.metrics.fields import COMPUTE_FIELDS, MACHINE_FIELDS, MACHINE_SERIES, MetricField
from bough.domain.metrics.points import make_point
from bough.domain.metrics.tiers import HOUR, align
from bough.store.metrics import encode_samples
from support.api_app import ApiApp
from support.api_client import Caller

MINUTE = 60


def at(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def last_minute() -> int:
    return align(clock.now().timestamp(), MINUTE) - MINUTE


async def add_samples(
    app: ApiApp,
    moment: int,
    samples: Mapping[str, Mapping[str, float]],
    fields: tuple[MetricField, ...] = COMPUTE_FIELDS,
) -> None:
    points = {series: make_point(fields, values) for series, values in samples.items()}
    async with app.platform.store.transaction() as rows:
        taken = await rows.metrics.list_sampled_shards(moment)
        assert not taken & {each.shard for each in encode_samples(moment, points)}
        await rows.metrics.add_samples(encode_samples(moment, points))


async def create_endpoint(caller: Caller) -> tuple[str, str, str]:
    """Return the paths of an endpoint and of its branch, and the endpoint's id."""
    created = await caller.create_project()
    project = f"/bough/projects/{created['project']['id']}"
    endpoint: str = created["endpoints"][0]["id"]
    await caller.finish_operations(created["project"]["id"])
    return f"{project}/endpoints/{endpoint}/metrics", f"{project}/branches/{created['branch']['id']}/metrics", endpoint


def by_name(body: dict[str, Any]) -> dict[tuple[str, str], list[float | None]]:
    return {(each["name"], each["aggregation"]): each["values"] for each in body["series"]}


async def test_an_endpoint_has_a_value_for_each_step_and_null_in_gaps(api_app: ApiApp, caller: Caller) -> None:
    path, _, endpoint = await create_endpoint(caller)
    start = last_minute() - 10 * MINUTE
    await add_samples(api_app, start, {endpoint: {"cpu_cores": 0.5, "rows_inserted": 2, "storage_bytes": 9}})
    await add_samples(api_app, start + 45, {endpoint: {"cpu_cores": 1.5, "rows_inserted": 0}})
    query: dict[str, Any] = {
        "from": at(start),
        "to": at(start + MINUTE),
        "metrics": "cpu_cores,rows_inserted",
        "step": 15,
    }
    response = await caller.client.get(path, params=query)
    assert response.status_code == 200
    assert response.json() == {
        "starts_at": at(start),
        "ends_at": at(start + MINUTE),
        "step_seconds": 15,
        "resolution_seconds": 15,
        "timestamps": [at(start + seconds) for seconds in (0, 15, 30, 45)],
        "series": [
            {"name": "cpu_cores", "unit": "cores", "aggregation": "average", "values": [0.5, None, None, 1.5]},
            {"name": "cpu_cores", "unit": "cores", "aggregation": "maximum", "values": [0.5, None, None, 1.5]},
            {"name": "rows_inserted", "unit": "rows", "aggregation": "sum", "values": [2, None, None, 0]},
        ],
    }
    response = await caller.client.get(path, params=query | {"step": 60, "metrics": "cpu_cores"})
    assert [each["values"] for each in response.json()["series"]] == [[1], [1.5]]
    assert response.json()["resolution_seconds"] == 60


async def test_without_parameters_it_is_the_last_hour_with_all_metrics(api_app: ApiApp, caller: Caller) -> None:
    path, _, _ = await create_endpoint(caller)
    body = (await caller.client.get(path)).json()
    assert (body["step_seconds"], len(body["timestamps"])) in ((15, 240), (15, 241))
    assert {name for name, _ in by_name(body)} == {field.name for field in COMPUTE_FIELDS}
    assert {value for values in by_name(body).values() for value in values} == {None}


async def test_the_metrics_may_be_repeated_or_joined(caller: Caller) -> None:
    path, _, _ = await create_endpoint(caller)
    for query in (
        "metrics=wal_bytes,blocks_hit",
        "metrics=wal_bytes&metrics=blocks_hit",
        "metrics=%20wal_bytes%20,,%20blocks_hit&metrics=",
    ):
        body = (await caller.client.get(f"{path}?{query}")).json()
        assert set(by_name(body)) == {("wal_bytes", "sum"), ("blocks_hit", "sum")}


async def test_a_branch_adds_its_computes_up(api_app: ApiApp, caller: Caller) -> None:
    path, branch_path, endpoint = await create_endpoint(caller)
    project, branch = branch_path.split("/")[3], branch_path.split("/")[5]
    created = await caller.client.post(
        f"/projects/{project}/endpoints", json={"endpoint": {"branch_id": branch, "type": "read_only"}}
    )
    replica = created.json()["endpoint"]["id"]
    await caller.finish_operations(project)
    start = last_minute() - 5 * MINUTE
    values = {"cpu_cores": 0.5, "rows_returned": 3, "storage_bytes": 100, "replica_lag_bytes": 0}
    await add_samples(api_app, start, {endpoint: values, replica: {**values, "replica_lag_bytes": 7}})
    query: dict[str, Any] = {"from": at(start), "to": at(start + MINUTE), "step": 60}
    found = by_name((await caller.client.get(branch_path, params=query)).json())
    assert found["cpu_cores", "average"] == found["cpu_cores", "maximum"] == [1]
    assert found["rows_returned", "sum"] == [6]
    assert found["storage_bytes", "maximum"] == [100]
    assert found["replica_lag_bytes", "maximum"] == [7]
    assert found["wal_bytes", "sum"] == [None]
    assert by_name((await caller.client.get(path, params=query)).json())["rows_returned", "sum"] == [3]


async def test_the_machine_is_for_the_operator(api_app: ApiApp, caller: Caller) -> None:
    start = last_minute() - 3 * MINUTE
    values = {"memory_used_bytes": 5, "memory_total_bytes": 9, "computes_running": 4, "load_average": 1.25}
    await add_samples(api_app, start, {MACHINE_SERIES: values}, MACHINE_FIELDS)
    query: dict[str, Any] = {"from": at(start), "to": at(start + MINUTE), "step": 15}
    async with api_app.client(api_app.platform.key) as operator:
        response = await operator.get("/bough/machine/metrics", params=query)
    found = by_name(response.json())
    assert {name for name, _ in found} == {field.name for field in MACHINE_FIELDS}
    assert found["load_average", "average"] == [1.25, None, None, None]
    assert found["memory_total_bytes", "maximum"] == [9, None, None, None]
    assert (await caller.client.get("/bough/machine/metrics")).status_code == 403


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"metrics": "cpu"}, "There is no metric 'cpu'"),
        ({"step": "20"}, "multiple of 15 seconds"),
        ({"step": "0"}, "step"),
        ({"step": "15.5"}, "step"),
        ({"step": str(10**30)}, "step"),
        ({"from": "2026-01-01T00:00:00"}, "from"),
        ({"from": "1767225600"}, "time zone"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2999-01-01T00:00:00Z", "from": "2998-01-01T00:00:00Z"}, "before now"),
        ({"from": "2020-01-01T00:00:00Z"}, "longer than"),
        ({"from": "0001-01-01T00:00:00Z", "to": "0001-01-01T01:00:00Z"}, "1970"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "before"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "step": "15"}, "larger step"),
    ],
)
async def test_what_cannot_be_answered_is_refused(caller: Caller, query: dict[str, str], message: str) -> None:
    path, _, _ = await create_endpoint(caller)
    response = await caller.client.get(path, params=query)
    assert response.status_code == 400, response.text
    assert message in response.json()["message"]


async def test_a_range_in_the_future_ends_now(caller: Caller) -> None:
    path, _, _ = await create_endpoint(caller)
    start = last_minute()
    query: dict[str, Any] = {"from": at(start), "to": at(start + 24 * HOUR), "step": 60}
    body = (await caller.client.get(path, params=query)).json()
    assert len(body["timestamps"]) in (1, 2, 3)


async def test_a_stranger_and_a_wrong_project_find_nothing(caller: Caller, stranger: Caller) -> None:
    path, branch_path, endpoint = await create_endpoint(caller)
    for each in (path, branch_path):
        assert (await stranger.client.get(each, params={"step": 7})).status_code == 404
    other, other_branch, _ = await create_endpoint(caller)
    assert (await caller.client.get(other.replace(other.split("/")[5], endpoint))).status_code == 404
    assert (await caller.client.get(other_branch.replace(other_branch.split("/")[5], "br-none"))).status_code == 404


async def test_a_deleted_endpoint_has_no_metrics(caller: Caller) -> None:
    path, _, _ = await create_endpoint(caller)
    assert (await caller.client.delete(path.removeprefix("/bough").removesuffix("/metrics"))).status_code == 200
    assert (await caller.client.get(path)).status_code == 404
