"""Requests for snapshot schedules."""

from dataclasses import replace
from typing import Any

import pytest

from api.project_client import ProjectClient, create_project_client
from bough import clock
from bough.domain.snapshot_schedule import SnapshotSchedule, next_run_of_all
from bough.ids import BranchId
from support.api_app import ApiApp
from support.api_client import Caller, Json

DAILY: Json = {"frequency": "daily", "hour": 5, "retention_seconds": 86400}
WEEKLY: Json = {"frequency": "weekly", "hour": 5, "day": 7, "retention_seconds": 3_024_000}
MONTHLY: Json = {"frequency": "monthly", "hour": 0, "day": 31, "retention_seconds": 3_024_000}


def of(tree: ProjectClient, branch_id: str | None = None) -> str:
    return f"{tree.branch_path(branch_id or tree.main_branch_id)}/backup_schedule"


async def row(tree: ProjectClient) -> SnapshotSchedule | None:
    async with tree.caller.api_app.services.store.read() as rows:
        return await rows.snapshot_schedules.get(BranchId(tree.main_branch_id))


async def refused(tree: ProjectClient, status: int, schedule: Any, branch_id: str | None = None) -> Json:
    before = await row(tree)
    response = await tree.request("PUT", of(tree, branch_id), {"schedule": schedule}, status=status)
    assert await row(tree) == before
    return response


async def test_what_is_set_is_shown(caller: Caller) -> None:
    tree = await create_project_client(caller)
    assert await tree.request("GET", of(tree)) == {"schedule": []}
    hourly = {"frequency": "hourly", "retention_seconds": 3600}
    for whole in ([DAILY], [hourly, DAILY, WEEKLY, MONTHLY], [{**hourly, "hour": 3}]):
        assert await tree.request("PUT", of(tree), {"schedule": whole}) == {}
        assert await tree.request("GET", of(tree)) == {"schedule": whole}
        schedule = await row(tree)
        assert schedule is not None
        assert schedule.next_at == next_run_of_all(schedule.items, schedule.updated_at)
        assert schedule.next_at > clock.now()
    await tree.request("PUT", of(tree), {"schedule": [{"frequency": "daily", "hour": 0}]})
    (shown,) = (await tree.request("GET", of(tree)))["schedule"]
    assert shown == {"frequency": "daily", "hour": 0}, "they are kept until somebody deletes them"
    assert await tree.request("PUT", of(tree), {"schedule": []}) == {}
    assert await tree.request("GET", of(tree)) == {"schedule": []}
    assert await row(tree) is None


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ([{"frequency": "daily"}], "schedule[0].hour is missing"),
        ([DAILY, {"frequency": "weekly", "hour": 5}], "schedule[1].day: a weekly snapshot needs one, from 1 to 7."),
        ([{**WEEKLY, "day": 8}], "from 1 to 7"),
        ([{"frequency": "monthly", "hour": 5}], "from 1 to 31"),
        ([{**DAILY, "month": 6}], "month is not used"),
        ([{**DAILY, "retention_seconds": 3599}], "retention_seconds is 3599: use 3600 (an hour) to 3024000 (35 days)."),
        ([{**DAILY, "retention_seconds": 3_024_001}], "retention_seconds is 3024001"),
        ([{**DAILY, "retention_seconds": -1}], "retention_seconds"),
        ([{**DAILY, "hour": 24}], "hour"),
        ([{**DAILY, "hour": "5"}], "hour"),
        ([{**WEEKLY, "day": 0}], "day"),
        ([{**MONTHLY, "day": 32}], "day"),
        ([{**MONTHLY, "month": 13}], "month"),
        ([{"frequency": "yearly", "hour": 5}], "frequency"),
        ([{"hour": 5}], "frequency"),
        ([DAILY, DAILY], "two items run at the same times"),
        ([DAILY] * 101, "schedule"),
        (None, "schedule"),
        ({}, "schedule"),
    ],
)
async def test_what_cannot_be_asked_for(caller: Caller, schedule: Any, sentence: str) -> None:
    tree = await create_project_client(caller)
    assert sentence in (await refused(tree, 400, schedule))["message"]


async def test_only_a_root_branch_has_one(caller: Caller) -> None:
    tree = await create_project_client(caller)
    child = (await tree.create_branch("dev"))["branch"]["id"]
    response = await refused(tree, 422, [DAILY], child)
    assert "Only a root branch can have a snapshot schedule, and 'dev' has a parent" in response["message"]
    assert await tree.request("GET", of(tree, child)) == {"schedule": []}
    await refused(tree, 404, [DAILY], "br-nowhere")
    await tree.request("GET", of(tree, "br-nowhere"), status=404)


async def test_it_must_fit_into_the_plan(api_app: ApiApp, stranger: Caller) -> None:
    tree = await create_project_client(replace(stranger, api_app=api_app))
    await tree.request("PUT", of(tree), {"schedule": [{**DAILY, "retention_seconds": 10 * 86400}]})
    response = await refused(tree, 422, [{"frequency": "hourly", "retention_seconds": 86400}])
    assert response["code"] == "SNAPSHOTS_LIMIT_EXCEEDED"
    assert "keeps 24 snapshots at a time, and the project's plan allows 10" in response["message"]
