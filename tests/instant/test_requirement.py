"""Every row of the tables in the requirement: fields, states, parameters, errors."""

import re
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bough import clock
from bough.domain.user import OPERATOR
from bough.ids import InstantId, ProjectId
from instant.instant_app import DATABASE_PATH, InstantApp

FIELDS = {
    "id",
    "status",
    "neon_project_id",
    "connection_string",
    "claim_url",
    "expires_at",
    "created_at",
    "updated_at",
}
CONNECTION_STRING = re.compile(
    r"postgresql://neondb_owner:\w+@ep-[a-z0-9-]+-pooler\.us-east-2\.aws\.localhost(:\d+)?/neondb"
    r"\?channel_binding=require&sslmode=require"
)


async def test_a_database_has_these_fields_and_no_others(instant_database: dict[str, Any]) -> None:
    assert instant_database.keys() == FIELDS


async def test_id_is_a_uuid_of_version_7_that_begins_with_the_time(instant_database: dict[str, Any]) -> None:
    parsed = uuid.UUID(instant_database["id"])
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    created = datetime.fromisoformat(instant_database["created_at"])
    assert abs((parsed.int >> 80) - int(created.timestamp() * 1000)) < 60_000


async def test_ids_of_one_moment_differ_in_all_that_is_random() -> None:
    now = clock.now()
    made = [uuid.UUID(InstantId.new_at(now)).int for _ in range(200)]
    assert len({number >> 80 for number in made}) == 1
    changing = 0
    for number in made:
        changing |= number ^ made[0]
    assert changing.bit_count() == 74


async def test_status_is_unclaimed_at_first(instant_database: dict[str, Any]) -> None:
    assert instant_database["status"] == "UNCLAIMED"


async def test_neon_project_id_names_a_project_with_postgres_17_in_us_east_2(
    instant_app: InstantApp, instant_database: dict[str, Any]
) -> None:
    async with instant_app.platform.store.read() as rows:
        project = await rows.projects.get(ProjectId(instant_database["neon_project_id"]))
    assert project is not None
    assert (project.pg_version, project.region_id) == (17, "aws-us-east-2")


async def test_connection_string_is_pooled_and_has_the_required_form(instant_database: dict[str, Any]) -> None:
    assert CONNECTION_STRING.fullmatch(instant_database["connection_string"])


async def test_its_compute_serves_when_the_answer_is_there(
    instant_app: InstantApp, instant_database: dict[str, Any]
) -> None:
    assert (await instant_app.fetch_value(instant_database, "show server_version")).startswith("17.")


async def test_claim_url_is_the_sites_claim_page_with_the_id(instant_database: dict[str, Any]) -> None:
    assert instant_database["claim_url"] == f"http://127.0.0.1:8432/claim/{instant_database['id']}"


async def test_claim_url_follows_the_public_address(instant_app: InstantApp, instant_database: dict[str, Any]) -> None:
    seen = await InstantApp(instant_app.platform, public_url="https://db.example.com").get(instant_database["id"])
    assert seen.json()["claim_url"] == f"https://db.example.com/claim/{instant_database['id']}"


async def test_expires_at_is_72_hours_after_created_at(instant_database: dict[str, Any]) -> None:
    created, expires = (
        datetime.fromisoformat(instant_database["created_at"]),
        datetime.fromisoformat(instant_database["expires_at"]),
    )
    assert expires - created == timedelta(hours=72)
    assert instant_database["updated_at"] == instant_database["created_at"]


async def test_times_are_iso_8601_in_utc(instant_database: dict[str, Any]) -> None:
    for name in ("expires_at", "created_at", "updated_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", instant_database[name]), instant_database[name]


async def test_get_answers_with_the_same_object(instant_app: InstantApp, instant_database: dict[str, Any]) -> None:
    response = await instant_app.get(instant_database["id"])
    assert response.status_code == 200
    assert response.json() == instant_database
    assert response.headers["cache-control"] == "no-store"


async def test_claiming_shows_while_somebody_claims_it_and_goes_by_itself(
    instant_app: InstantApp, instant_database: dict[str, Any]
) -> None:
    await instant_app.update_row(
        instant_database, claiming_by=OPERATOR, claiming_until=clock.now() + timedelta(minutes=15)
    )
    assert (await instant_app.get(instant_database["id"])).json()["status"] == "CLAIMING"
    await instant_app.update_row(instant_database, claiming_by=OPERATOR, claiming_until=clock.now())
    assert (await instant_app.get(instant_database["id"])).json()["status"] == "UNCLAIMED"


async def test_claimed_has_no_connection_string_and_keeps_its_last_expires_at(instant_app: InstantApp) -> None:
    made = await instant_app.create()
    long_ago = clock.now() - timedelta(days=30)
    await instant_app.update_row(made, claimed_by=OPERATOR, claimed_at=clock.now(), expires_at=long_ago)
    seen = (await instant_app.get(made["id"])).json()
    assert seen["status"] == "CLAIMED"
    assert seen["connection_string"] is None
    assert datetime.fromisoformat(seen["expires_at"]) == long_ago


async def test_enable_logical_replication_is_off_unless_asked_for(
    instant_app: InstantApp, instant_database: dict[str, Any]
) -> None:
    assert await instant_app.fetch_value(instant_database, "show wal_level") == "replica"
    other = await instant_app.create(enable_logical_replication=False)
    assert await instant_app.fetch_value(other, "show wal_level") == "replica"


@pytest.mark.parametrize("body", ["", "{}", '{"ref": ""}', '{"ref": "  "}', '{"ref": null}'])
async def test_ref_missing_or_empty_is_400_missing_referrer_with_a_hint(instant_app: InstantApp, body: str) -> None:
    response = await instant_app.post(content=body)
    assert response.status_code == 400
    assert response.json()["message"] == "Missing referrer"
    assert response.json()["hint"]


@pytest.mark.parametrize(
    "database_id", ["nonsense", "0", "01a1e74b-8953-73f5-a9d2-719d4922f75", "6ba7b811-9dad-41d1-80b4-00c04fd430c8"]
)
async def test_an_invalid_database_id_is_400_database_not_found(instant_app: InstantApp, database_id: str) -> None:
    response = await instant_app.get(database_id)
    assert response.status_code == 400
    assert response.json()["message"] == "Database not found"


@pytest.mark.parametrize("body", ["{", "ref=me", "nothing", '{"ref": "a",}', "[]", "7", b"\xff\xfe", "[" * 100_000])
async def test_an_invalid_json_body_is_500_failed_to_create(instant_app: InstantApp, body: str | bytes) -> None:
    response = await instant_app.post(content=body)
    assert response.status_code == 500
    assert response.json()["message"] == "Failed to create the database."


@pytest.mark.parametrize(
    "body",
    [
        {"ref": 7},
        {"ref": True},
        {"ref": ["a"]},
        {"ref": {"a": 1}},
        {"ref": "a", "enable_logical_replication": "true"},
        {"ref": "a", "enable_logical_replication": 1},
        {"ref": "a", "enable_logical_replication": None},
        {"ref": "a", "enable_logical_replication": []},
    ],
)
async def test_an_invalid_parameter_type_is_500_failed_to_create(instant_app: InstantApp, body: object) -> None:
    response = await instant_app.post(json=body)
    assert response.status_code == 500
    assert response.json()["message"] == "Failed to create the database."


async def test_a_uuid_of_the_callers_own_names_the_database(instant_app: InstantApp) -> None:
    chosen = str(uuid.uuid4())
    response = await instant_app.post(
        f"{DATABASE_PATH}/{chosen}?referrer=tool", json={"enable_logical_replication": True}
    )
    assert response.status_code == 201
    made = response.json()
    assert made["id"] == chosen
    assert (await instant_app.get(chosen)).json() == made
    assert await instant_app.fetch_value(made, "show wal_level") == "logical"


async def test_a_uuid_of_ones_own_needs_a_referrer_too(instant_app: InstantApp) -> None:
    response = await instant_app.post(f"{DATABASE_PATH}/{uuid.uuid4()}", json={})
    assert (response.status_code, response.json()["message"]) == (400, "Missing referrer")


async def test_a_uuid_that_exists_creates_nothing_and_tells_nothing(
    instant_app: InstantApp, instant_database: dict[str, Any]
) -> None:
    used = await instant_app.post(f"{DATABASE_PATH}/{instant_database['id']}?referrer=tool", json={})
    senseless = await instant_app.post(f"{DATABASE_PATH}/senseless?referrer=tool", json={})
    assert used.status_code == senseless.status_code == 400
    body, other = used.json(), senseless.json()
    assert {**body, "request_id": ""} == {**other, "request_id": ""}
    assert (await instant_app.get(instant_database["id"])).json() == instant_database


async def test_no_authentication_is_asked_for_and_a_key_changes_nothing(instant_app: InstantApp) -> None:
    response = await instant_app.post(json={"ref": "a"}, headers={"Authorization": "Bearer nonsense"})
    assert response.status_code == 201


async def test_its_description_is_served_and_is_no_part_of_the_other_apis(instant_app: InstantApp) -> None:
    async with instant_app.client() as client:
        mine, other = [await client.get(f"/api/{version}/openapi.json") for version in ("v1", "v2")]
    assert set(mine.json()["paths"]) == {"/api/v1/database", "/api/v1/database/{database_id}"}
    assert mine.text == (Path(__file__).parents[2] / "openapi/v1.json").read_text()
    assert not [path for path in other.json()["paths"] if path.startswith("/api/v1")]


@pytest.mark.parametrize(
    ("limit", "unclaimed", "claimed"),
    [
        ("storage_bytes", 100 * 1024**2, 512 * 1024**2),
        ("transfer_bytes", 1024**3, 5 * 1024**3),
        ("branches", 1, 500),
    ],
)
async def test_limits_are_those_of_two_plans(
    instant_app: InstantApp, instant_database: dict[str, Any], limit: str, unclaimed: int, claimed: int
) -> None:
    async with instant_app.platform.store.read() as rows:
        project = await rows.projects.get(ProjectId(instant_database["neon_project_id"]))
        assert project is not None
        owner = await rows.organizations.get(project.org_id)
    assert owner is not None
    assert getattr(instant_app.settings.plan(owner.plan), limit) == unclaimed
    assert getattr(instant_app.settings.plan("free"), limit) == claimed


async def test_nobody_reaches_an_unclaimed_one_by_the_management_api(
    instant_app: InstantApp, instant_database: dict[str, Any]
) -> None:
    """So it has no branches, whatever key a client has."""
    path = f"/api/v2/projects/{instant_database['neon_project_id']}/branches"
    response = await instant_app.platform.client.post(path, json={})
    assert response.status_code == 404
