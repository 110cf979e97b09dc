"""Limits of the creation of instant databases: each error message says what to do."""

import asyncio

import pytest

from bough.config import DEFAULT_PLANS, Region
from instant.instant_app import DATABASE_PATH, InstantApp
from support.platform import Platform

BODY = {"ref": "tests"}


async def test_one_address_makes_so_many_an_hour_and_another_still_may(instant_app: InstantApp) -> None:
    limited = InstantApp(instant_app.platform, instant_per_hour_and_address=1)
    assert (await limited.post(json=BODY)).status_code == 201
    refused = await limited.post(json=BODY)
    assert refused.status_code == 429
    assert "1 per hour and address" in refused.json()["message"]
    assert 0 < int(refused.headers["retry-after"]) <= 3600
    assert (await limited.post(address="10.1.2.3", json=BODY)).status_code == 201


async def test_everybody_together_makes_so_many_an_hour(instant_app: InstantApp) -> None:
    limited = InstantApp(instant_app.platform, instant_per_hour=1)
    assert (await limited.post(json=BODY)).status_code == 201
    refused = await limited.post(address="10.1.2.3", json=BODY)
    assert refused.status_code == 429
    assert "1 per hour for all callers" in refused.json()["message"]


async def test_what_is_not_understood_costs_nothing(instant_app: InstantApp) -> None:
    limited = InstantApp(instant_app.platform, instant_per_hour=1)
    for body in ({}, {"ref": 5}):
        assert (await limited.post(json=body)).status_code in {400, 500}
    assert (await limited.post(json=BODY)).status_code == 201


async def test_none_are_made_where_the_operator_allows_none(instant_app: InstantApp) -> None:
    refused = await InstantApp(instant_app.platform, instant_per_hour=0).post(json=BODY)
    assert refused.status_code == 403
    assert "instant_per_hour" in refused.json()["message"]


async def test_requests_without_an_account_are_counted_by_address(instant_app: InstantApp) -> None:
    limited = InstantApp(instant_app.platform, rate_per_minute_and_address=2)
    assert [(await limited.get("nonsense")).status_code for _ in range(3)] == [400, 400, 429]


async def test_a_full_machine_refuses_new_ones_and_serves_the_others(
    instant_app: InstantApp, instant_database: dict[str, str]
) -> None:
    full = InstantApp(
        instant_app.platform, capabilities={"creation_blocked_reason": "The disk has less than 512 MB left."}
    )
    refused = await full.post(json=BODY)
    assert refused.status_code == 503
    assert refused.json()["message"] == "The disk has less than 512 MB left."
    assert refused.headers["retry-after"]
    assert (await full.get(instant_database["id"])).status_code == 200
    assert await full.fetch_value(instant_database, "select 1") == 1


async def test_there_is_room_for_so_many_that_nobody_claimed(
    instant_app: InstantApp, instant_database: dict[str, str]
) -> None:
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    crowded = InstantApp(instant_app.platform, plans={**plans, "unclaimed": {**plans["unclaimed"], "projects": 1}})
    refused = await crowded.post(json=BODY)
    assert refused.status_code == 503
    assert "Try again later" in refused.json()["message"]
    assert (await crowded.get(instant_database["id"])).status_code == 200


async def test_where_projects_are_not_kept_apart_strangers_get_none(instant_app: InstantApp) -> None:
    exposed = InstantApp(instant_app.platform, capabilities={"has_isolation": False}, listen="0.0.0.0")
    refused = await exposed.post(json=BODY)
    assert refused.status_code == 403
    assert "root" in refused.json()["message"]
    at_home = InstantApp(instant_app.platform, capabilities={"has_isolation": False}, listen="127.0.0.1")
    assert (await at_home.post(json=BODY)).status_code == 201


@pytest.mark.parametrize("missing", ["region", "version"])
async def test_without_its_region_or_version_none_is_made(instant_app: InstantApp, missing: str) -> None:
    elsewhere = Region(id="aws-eu-central-1", name="Frankfurt")
    lacking = (
        InstantApp(instant_app.platform, regions=[elsewhere.model_dump()])
        if missing == "region"
        else InstantApp(instant_app.platform, capabilities={"installs": {16: "16.0"}})
    )
    refused = await lacking.post(json=BODY)
    assert refused.status_code == 503
    assert {"region": "aws-us-east-2", "version": "Postgres 17"}[missing] in refused.json()["message"]


async def test_refusals_leave_nothing_behind(instant_app: InstantApp) -> None:
    before = await _projects(instant_app.platform)
    await InstantApp(instant_app.platform, instant_per_hour=0).post(json=BODY)
    await InstantApp(instant_app.platform, capabilities={"creation_blocked_reason": "Full."}).post(json=BODY)
    await instant_app.post(f"{DATABASE_PATH}/nonsense?referrer=a", json={})
    assert await _projects(instant_app.platform) == before


async def test_those_who_come_at_once_wait_for_one_another(instant_app: InstantApp) -> None:
    narrow = InstantApp(instant_app.platform, instant_at_once=1)
    created = await asyncio.gather(*(narrow.create() for _ in range(3)))
    assert len({each["id"] for each in created}) == 3


async def _projects(platform: Platform) -> int:
    async with platform.store.read() as rows:
        return await rows.projects.count()
