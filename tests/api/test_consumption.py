"""The consumption history: parameters, rounding, paging, rights and errors, and the counters that objects show."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bough import clock
from bough.control.consumption import counting
from bough.domain.api_key import KeyKind
from bough.domain.calendar_month import start_of_month
from bough.domain.consumption import Amounts, Granularity
from bough.domain.organization import MemberRole, Organization
from bough.domain.usage import EndpointTraffic
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.stored_amounts import BranchAmounts
from support.api_app import ApiApp
from support.api_client import Caller, Json
from support.branches import shift_clock

ACCOUNT, PROJECTS, PROJECTS_V2, BRANCHES_V2 = (
    f"/consumption_history/{path}" for path in ("account", "projects", "v2/projects", "v2/branches")
)
HOUR = timedelta(hours=1)


def text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def today(granularity: str = "daily", **more: Any) -> Json:
    """Return a query for the bucket of the present, written as the published dashboard does: until tomorrow."""
    start = Granularity(granularity).start_of(clock.now())
    end = start + timedelta(days=40) if granularity == "monthly" else start + timedelta(days=1)
    return {"from": text(start), "to": text(end), "granularity": granularity, **more}


async def get(caller: Caller, path: str, *, status: int = 200, **query: Any) -> Json:
    response = await caller.client.get(path, params=query)
    assert response.status_code == status, response.text
    body: Json = response.json()
    return body


async def refuse(caller: Caller, path: str, status: int, **query: Any) -> str:
    return str((await get(caller, path, status=status, **query))["message"])


async def use(app: ApiApp, created: Json, *, bytes_out: int = 0, written: int = 0, seconds: float = 0) -> None:
    """Use the project's endpoint, and count it."""
    endpoint = EndpointId(created["endpoints"][0]["id"])
    async with app.services.store.transaction() as rows:
        now = clock.now()
        found = await rows.endpoints.get(endpoint)
        assert found is not None
        await rows.usage.add_traffic(
            EndpointTraffic(endpoint_id=endpoint, bytes_in=1, bytes_out=bytes_out, connections_opened=1)
        )
        await rows.usage.add_written(endpoint, written)
        await rows.usage.start_metering(endpoint, now - timedelta(seconds=seconds))
        await rows.usage.stop_metering(found, now, 0.5)
        await counting.count(rows, now)


async def store_bytes(app: ApiApp, created: Json, at: datetime, size: int) -> None:
    amounts = Amounts(root_bytes=size, stored_bytes=size, logical_bytes=size)
    project, branch = ProjectId(created["project"]["id"]), BranchId(created["branch"]["id"])
    async with app.services.store.transaction() as rows:
        await counting.count(rows, at, amounts=[BranchAmounts(project_id=project, branch_id=branch, amounts=amounts)])


def buckets(periods: list[Json]) -> list[Json]:
    return [bucket for period in periods for bucket in period["consumption"]]


def metric(bucket: Json, name: str) -> int:
    (found,) = [each["value"] for each in bucket["metrics"] if each["metric_name"] == name]
    return int(found)


async def test_one_project_in_all_four_answers(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    project_id, org_id = created["project"]["id"], caller.organization.id
    await use(api_app, created, bytes_out=1000, written=50, seconds=10)
    (period,) = (await get(caller, ACCOUNT, **today()))["periods"]
    now = clock.now()
    assert period["period_start"] == text(start_of_month(now))
    assert period["period_plan"] == "unlimited"
    assert "period_end" not in period
    uuid.UUID(period["period_id"])
    (bucket,) = period["consumption"]
    assert bucket == {
        "timeframe_start": text(Granularity.DAILY.start_of(now)),
        "timeframe_end": text(Granularity.DAILY.start_of(now) + timedelta(days=1)),
        "active_time_seconds": 10,
        "compute_time_seconds": 5,
        "written_data_bytes": 50,
        "synthetic_storage_size_bytes": 0,
    }
    (project,) = (await get(caller, PROJECTS, **today()))["projects"]
    assert project == {"project_id": project_id, "periods": [period]}
    metrics = "compute_unit_seconds,public_network_transfer_bytes,extra_branches_month"
    (project,) = (await get(caller, PROJECTS_V2, **today(org_id=org_id, metrics=metrics)))["projects"]
    (bucket,) = buckets(project["periods"])
    assert bucket["metrics"] == [
        {"metric_name": "compute_unit_seconds", "value": 5},
        {"metric_name": "public_network_transfer_bytes", "value": 1000},
        {"metric_name": "extra_branches_month", "value": 0},
    ]
    query = today(org_id=org_id, metrics="compute_unit_seconds", project_ids=project_id)
    (branch,) = (await get(caller, BRANCHES_V2, **query))["branches"]
    assert (branch["project_id"], branch["branch_id"]) == (project_id, created["branch"]["id"])
    assert metric(buckets(branch["periods"])[0], "compute_unit_seconds") == 5
    assert branch["periods"][0]["period_id"] == period["period_id"]


async def test_projects_of_nobody_else_are_counted(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    created = await stranger.create_project()
    await use(api_app, created, written=50, seconds=10)
    assert (await get(caller, ACCOUNT, **today()))["periods"] == []
    query = today(project_ids=created["project"]["id"])
    assert (await get(caller, PROJECTS, **query))["projects"] == []
    message = await refuse(caller, PROJECTS, 404, **today(org_id=stranger.organization.id))
    assert message.startswith("The requested organization could not be found")


async def test_metrics_of_the_first_version(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    hour = Granularity.HOURLY.start_of(clock.now())
    await store_bytes(api_app, created, clock.now(), 7000)
    with shift_clock(hour + 2 * HOUR + timedelta(minutes=1) - clock.now()):
        query = today("hourly", metrics="data_storage_bytes_hour,logical_size_bytes,logical_size_bytes_hour")
        query["from"] = text(hour)
        (project,) = (await get(caller, PROJECTS, **query))["projects"]
        assert [each["data_storage_bytes_hour"] for each in buckets(project["periods"])] == [7000] * 3
        assert [each["logical_size_bytes_hour"] for each in buckets(project["periods"])] == [7000] * 3
        assert [each["synthetic_storage_size_bytes"] for each in buckets(project["periods"])] == [7000] * 3
        (bucket,) = buckets((await get(caller, ACCOUNT, **today("monthly", include_v1_metrics=True)))["periods"])
        assert bucket["data_storage_bytes_hour"] == 21000
        assert "logical_size_bytes" not in bucket
        named = today("monthly", include_v1_metrics=True, metrics="active_time_seconds")
        assert "data_storage_bytes_hour" not in buckets((await get(caller, ACCOUNT, **named))["periods"])[0]
        assert (await caller.get_project(created["project"]["id"]))["data_storage_bytes_hour"] == 21000
    message = await refuse(caller, ACCOUNT, 400, **today(metrics="logical_size_bytes"))
    assert message.startswith("metrics: 'logical_size_bytes' is not known here. Metrics: active_time_seconds,")


@pytest.mark.parametrize(
    "metrics",
    [
        {"metrics": "root_branch_bytes_month,compute_unit_seconds"},
        {"metrics": ["root_branch_bytes_month", "compute_unit_seconds"]},
        {"metrics": [" root_branch_bytes_month ,,", "compute_unit_seconds,root_branch_bytes_month"]},
        {"metrics[]": ["root_branch_bytes_month", "compute_unit_seconds"]},
    ],
)
async def test_lists_are_written_in_several_ways(api_app: ApiApp, caller: Caller, metrics: Json) -> None:
    await use(api_app, await caller.create_project(), seconds=1)
    query = today(org_id=caller.organization.id, project_ids="", **metrics)
    (project,) = (await get(caller, PROJECTS_V2, **query))["projects"]
    (bucket,) = buckets(project["periods"])
    assert [each["metric_name"] for each in bucket["metrics"]] == ["root_branch_bytes_month", "compute_unit_seconds"]


async def test_byte_months_are_byte_hours_divided_by_744(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    begin = Granularity.DAILY.start_of(clock.now()) + timedelta(days=1)
    await store_bytes(api_app, created, begin, 744_000)
    with shift_clock(begin + 3 * HOUR - clock.now()):
        query = today(org_id=caller.organization.id, metrics="root_branch_bytes_month")
        (project,) = (await get(caller, PROJECTS_V2, **query))["projects"]
        assert metric(buckets(project["periods"])[-1], "root_branch_bytes_month") == 3000


async def test_both_ends_are_rounded_down_and_the_end_is_cut_at_now(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    await use(api_app, created, seconds=1)
    now = clock.now()
    day = Granularity.DAILY.start_of(now)
    some_hour = text(day + timedelta(hours=15, minutes=30))
    query: Json = {"from": some_hour, "to": text(day + timedelta(days=30)), "granularity": "daily"}
    (project,) = (await get(caller, PROJECTS, **query))["projects"]
    assert [each["timeframe_start"] for each in buckets(project["periods"])] == [text(day)]
    for end, expected in ((some_hour, [text(day)]), (text(day), [text(day)])):  # the same bucket twice
        query = {"from": text(day), "to": end, "granularity": "daily"}
        found = buckets((await get(caller, PROJECTS, **query))["projects"][0]["periods"])
        assert [each["timeframe_start"] for each in found] == expected
    earlier: Json = {"from": text(day - timedelta(days=2)), "to": text(day), "granularity": "daily"}
    (project,) = (await get(caller, PROJECTS, **earlier))["projects"]
    assert project["periods"] == []  # it did not exist yet
    zone = day.astimezone().replace(tzinfo=None).isoformat()
    assert "timezone" in await refuse(caller, PROJECTS, 400, **{**today(), "from": zone})


@pytest.mark.parametrize(
    ("granularity", "days"), [("hourly", 7), ("daily", 60), ("monthly", 365)], ids=["hourly", "daily", "monthly"]
)
async def test_a_range_that_begins_too_early_is_refused(caller: Caller, granularity: str, days: int) -> None:
    now = clock.now()
    reached = now.replace(year=now.year - 1) if granularity == "monthly" else now - timedelta(days=days)
    earliest = Granularity(granularity).start_of(reached)
    query: Json = {"to": text(now), "granularity": granularity}
    await get(caller, PROJECTS, **{**query, "from": text(earliest)})
    message = await refuse(caller, PROJECTS, 406, **{**query, "from": text(earliest - timedelta(seconds=1))})
    assert f"the earliest is {text(earliest)}" in message


async def test_a_range_that_ends_before_it_begins_is_refused(caller: Caller) -> None:
    now = clock.now()
    query: Json = {"from": text(now), "to": text(now - HOUR), "granularity": "hourly"}
    assert await refuse(caller, ACCOUNT, 406, **query) == "from is after to. Exchange them."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"from": "yesterday"}, "from: "),
        ({"to": "2026-02-30T00:00:00Z"}, "to: "),
        ({"from": "1767225600"}, "from: "),
        ({"from": "0001-01-01T00:00:00+14:00"}, "from"),
        ({"granularity": "weekly"}, "granularity: "),
        (
            {"metrics": "cpu"},
            "metrics: 'cpu' is not known here. Metrics: compute_unit_seconds, root_branch_bytes_month",
        ),
        ({"metrics": ","}, "metrics: name at least one of compute_unit_seconds"),
        ({"limit": 0}, "limit: "),
        ({"limit": 101}, "limit: "),
        ({"cursor": "no-such-project-12345678"}, "The cursor was not issued by this API"),
        ({"cursor": "%"}, "'%' is not a valid project id"),
        ({"project_ids": "UPPER"}, "'UPPER' is not a valid project id"),
        ({"project_ids": ",".join(f"p-{number}" for number in range(101))}, "project_ids: 101 ids are too many"),
    ],
)
async def test_bad_parameters_are_refused(caller: Caller, changes: Json, expected: str) -> None:
    query = today(org_id=caller.organization.id, metrics="compute_unit_seconds") | changes
    assert expected in await refuse(caller, PROJECTS_V2, 400, **query)


async def test_branches_need_a_project(caller: Caller) -> None:
    query = today(org_id=caller.organization.id, metrics="compute_unit_seconds")
    assert await refuse(caller, BRANCHES_V2, 400, **query) == "project_ids: name at least one project."
    metrics = query | {"metrics": "extra_branches_month", "project_ids": "a"}
    assert "'extra_branches_month' is not known here" in await refuse(caller, BRANCHES_V2, 400, **metrics)


async def test_pages_end_without_a_cursor(caller: Caller) -> None:
    created = [(await caller.create_project())["project"]["id"] for _ in range(3)]
    query = today(limit=2)
    first = await get(caller, PROJECTS, **query)
    assert [each["project_id"] for each in first["projects"]] == created[:0:-1]
    assert first["pagination"] == {"cursor": created[1]}
    second = await get(caller, PROJECTS, **query, cursor=created[1])
    assert [each["project_id"] for each in second["projects"]] == created[:1]
    assert "pagination" not in second
    unknown = today(project_ids=[created[0], "no-such-project-12345678"])
    assert [each["project_id"] for each in (await get(caller, PROJECTS, **unknown))["projects"]] == created[:1]


async def test_branches_are_paged_by_their_ids(caller: Caller) -> None:
    project_ids = [await caller.create_ready_project() for _ in range(2)]
    for project_id in project_ids:
        response = await caller.client.post(f"/projects/{project_id}/branches", json={"branch": {"name": "dev"}})
        assert response.status_code == 201
    query = today(org_id=caller.organization.id, metrics="child_branch_bytes_month", project_ids=",".join(project_ids))
    every = (await get(caller, BRANCHES_V2, **query))["branches"]
    places = [(each["project_id"], each["branch_id"]) for each in every]
    assert (len(places), places) == (4, sorted(places))
    seen: list[tuple[str, str]] = []
    page: Json = {"pagination": {}}
    while "pagination" in page:
        page = await get(caller, BRANCHES_V2, **query, limit=3, **page["pagination"])
        seen += [(each["project_id"], each["branch_id"]) for each in page["branches"]]
    assert seen == places
    some = await get(caller, BRANCHES_V2, **query, branch_ids=[places[1][1], "br-unknown"])
    assert [each["branch_id"] for each in some["branches"]] == [places[1][1]]


async def test_keys_see_what_they_may_read(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    first, second = await caller.create_project(), await caller.create_project()
    for created in (first, second):
        await use(api_app, created, written=5, seconds=1)
    of_project = await caller.create_key(KeyKind.PROJECT, first["project"]["id"])
    of_organization = await caller.create_key(KeyKind.ORGANIZATION)
    async with api_app.client(of_project) as client, api_app.client(of_organization) as other:
        answer = await client.get(PROJECTS, params=today())
        assert [each["project_id"] for each in answer.json()["projects"]] == [first["project"]["id"]]
        assert (await client.get(ACCOUNT, params=today())).status_code == 403
        (period,) = (await other.get(ACCOUNT, params=today())).json()["periods"]
        assert period["consumption"][0]["written_data_bytes"] == 10
    await stranger.join_organization(caller.organization, MemberRole.COLLABORATOR)
    org_id = caller.organization.id
    assert (await get(stranger, PROJECTS, **today(org_id=org_id)))["projects"] == []
    assert "You may not see the consumption of this organization." in await refuse(
        stranger, ACCOUNT, 403, **today(org_id=org_id)
    )


async def test_a_deleted_project_still_counts(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    await use(api_app, created, written=5, seconds=1)
    await caller.finish_operations(created["project"]["id"])
    assert (await caller.client.delete(f"/projects/{created['project']['id']}")).status_code == 200
    (bucket,) = buckets((await get(caller, ACCOUNT, **today()))["periods"])
    assert bucket["written_data_bytes"] == 5


async def test_a_transferred_project_counts_for_both_organizations(api_app: ApiApp, caller: Caller) -> None:
    team: Organization = await caller.create_organization()
    created = await caller.create_project()
    project_id = created["project"]["id"]
    await caller.finish_operations(project_id)
    await use(api_app, created, written=5, seconds=1)
    body = {"destination_org_id": team.id, "project_ids": [project_id]}
    assert (await caller.client.post("/users/me/projects/transfer", json=body)).status_code == 200
    await use(api_app, created, written=7, seconds=1)
    written = []
    for org_id in (caller.organization.id, team.id):
        (project,) = (await get(caller, PROJECTS, **today(org_id=org_id)))["projects"]
        (period,) = project["periods"]
        written.append(period["consumption"][0]["written_data_bytes"])
    assert written == [5, 7]
    assert (await caller.get_project(project_id))["written_data_bytes"] == 12  # the counters of the month stay


async def test_counters_of_objects_begin_anew_with_each_month(api_app: ApiApp, caller: Caller) -> None:
    created = await caller.create_project()
    project_id, branch_id = created["project"]["id"], created["branch"]["id"]
    await use(api_app, created, bytes_out=1000, written=50, seconds=10)
    branch_path = f"/projects/{project_id}/branches/{branch_id}"

    async def read_counters() -> list[Any]:
        project = await caller.get_project(project_id)
        branch = (await caller.client.get(branch_path)).json()["branch"]
        listed = (await caller.client.get("/projects", params={"org_id": caller.organization.id})).json()["projects"][0]
        names = ("active_time_seconds", "compute_time_seconds", "written_data_bytes", "data_transfer_bytes")
        return [[each[name] for name in names] for each in (project, branch)] + [listed["active_time"]]

    assert await read_counters() == [[10, 5, 50, 1000]] * 2 + [10]
    now = clock.now()
    with shift_clock(start_of_month(now + timedelta(days=31)) + HOUR - now):
        assert await read_counters() == [[0, 0, 0, 0]] * 2 + [0]
        project = await caller.get_project(project_id)
        assert datetime.fromisoformat(project["consumption_period_start"]) > now.astimezone(UTC)
