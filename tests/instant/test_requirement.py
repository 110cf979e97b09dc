"""Every row of the requirement's tables, by name: fields, states, parameters, errors."""

import re
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bough import clock
from bough.domain.user import OPERATOR
from bough.ids import InstantId, ProjectId
from instant.front import DATABASE, Front

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


async def test_a_database_has_these_fields_and_no_others(made: dict[str, Any]) -> None:
    assert made.keys() == FIELDS


async def test_id_is_a_uuid_of_version_7_that_begins_with_the_time(made: dict[str, Any]) -> None:
    parsed = uuid.UUID(made["id"])
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    created = datetime.fromisoformat(made["created_at"])
    assert abs((parsed.int >> 80) - int(created.timestamp() * 1000)) < 60_000


async def test_ids_of_one_moment_differ_in_all_that_is_random() -> None:
    now = clock.now()
    made = [uuid.UUID(InstantId.made_at(now)).int for _ in range(200)]
    assert len({number >> 80 for number in made}) == 1
    changing = 0
    for number in made:
        changing |= number ^ made[0]
    assert changing.bit_count() == 74


async def test_status_is_unclaimed_at_first(made: dict[str, Any]) -> None:
    assert made["status"] == "UNCLAIMED"


async def test_neon_project_id_names_a_project_with_postgres_17_in_us_east_2(
    front: Front, made: dict[str, Any]
) -> None:
    async with front.platform.store.read() as rows:
        project = await rows.projects.get(ProjectId(made["neon_project_id"]))
    assert project is not None
    assert (project.pg_version, project.region_id) == (17, "aws-us-east-2")


async def test_connection_string_is_pooled_and_has_the_required_form(made: dict[str, Any]) -> None:
    assert CONNECTION_STRING.fullmatch(made["connection_string"])


async def test_its_compute_serves_when_the_answer_is_there(front: Front, made: dict[str, Any]) -> None:
    assert (await front.value(made, "show server_version")).startswith("17.")


async def test_claim_url_is_the_sites_claim_page_with_the_id(made: dict[str, Any]) -> None:
    assert made["claim_url"] == f"http://127.0.0.1:8432/claim/{made['id']}"


async def test_claim_url_follows_the_public_address(front: Front, made: dict[str, Any]) -> None:
    seen = await Front(front.platform, public_url="https://db.example.com").get(made["id"])
    assert seen.json()["claim_url"] == f"https://db.example.com/claim/{made['id']}"


async def test_expires_at_is_72_hours_after_created_at(made: dict[str, Any]) -> None:
    created, expires = datetime.fromisoformat(made["created_at"]), datetime.fromisoformat(made["expires_at"])
    assert expires - created == timedelta(hours=72)
    assert made["updated_at"] == made["created_at"]


async def test_times_are_iso_8601_in_utc(made: dict[str, Any]) -> None:
    for name in ("expires_at", "created_at", "updated_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", made[name]), made[name]


async def test_get_answers_with_the_same_object(front: Front, made: dict[str, Any]) -> None:
    answer = await front.get(made["id"])
    assert answer.status_code == 200
    assert answer.json() == made
    assert answer.headers["cache-control"] == "no-store"


async def test_claiming_shows_while_somebody_claims_it_and_goes_by_itself(front: Front, made: dict[str, Any]) -> None:
    await front.change(made, claiming_by=OPERATOR, claiming_until=clock.now() + timedelta(minutes=15))
    assert (await front.get(made["id"])).json()["status"] == "CLAIMING"
    await front.change(made, claiming_by=OPERATOR, claiming_until=clock.now())
    assert (await front.get(made["id"])).json()["status"] == "UNCLAIMED"


async def test_claimed_has_no_connection_string_and_keeps_its_last_expires_at(front: Front) -> None:
    made = await front.create()
    long_ago = clock.now() - timedelta(days=30)
    await front.change(made, claimed_by=OPERATOR, claimed_at=clock.now(), expires_at=long_ago)
    seen = (await front.get(made["id"])).json()
    assert seen["status"] == "CLAIMED"
    assert seen["connection_string"] is None
    assert datetime.fromisoformat(seen["expires_at"]) == long_ago


async def test_enable_logical_replication_is_off_unless_asked_for(front: Front, made: dict[str, Any]) -> None:
    assert await front.value(made, "show wal_level") == "replica"
    other = await front.create(enable_logical_replication=False)
    assert await front.value(other, "show wal_level") == "replica"


@pytest.mark.parametrize("body", ["", "{}", '{"ref": ""}', '{"ref": "  "}', '{"ref": null}'])
async def test_ref_missing_or_empty_is_400_missing_referrer_with_a_hint(front: Front, body: str) -> None:
    answer = await front.post(content=body)
    assert answer.status_code == 400
    assert answer.json()["message"] == "Missing referrer"
    assert answer.json()["hint"]


@pytest.mark.parametrize(
    "database_id", ["nonsense", "0", "01a1e74b-8953-73f5-a9d2-719d4922f75", "6ba7b811-9dad-41d1-80b4-00c04fd430c8"]
)
async def test_an_invalid_database_id_is_400_database_not_found(front: Front, database_id: str) -> None:
    answer = await front.get(database_id)
    assert answer.status_code == 400
    assert answer.json()["message"] == "Database not found"


@pytest.mark.parametrize("body", ["{", "ref=me", "nothing", '{"ref": "a",}', "[]", "7", b"\xff\xfe", "[" * 100_000])
async def test_an_invalid_json_body_is_500_failed_to_create(front: Front, body: str | bytes) -> None:
    answer = await front.post(content=body)
    assert answer.status_code == 500
    assert answer.json()["message"] == "Failed to create the database."


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
async def test_an_invalid_parameter_type_is_500_failed_to_create(front: Front, body: object) -> None:
    answer = await front.post(json=body)
    assert answer.status_code == 500
    assert answer.json()["message"] == "Failed to create the database."


async def test_a_uuid_of_the_callers_own_names_the_database(front: Front) -> None:
    chosen = str(uuid.uuid4())
    answer = await front.post(f"{DATABASE}/{chosen}?referrer=tool", json={"enable_logical_replication": True})
    assert answer.status_code == 201
    made = answer.json()
    assert made["id"] == chosen
    assert (await front.get(chosen)).json() == made
    assert await front.value(made, "show wal_level") == "logical"


async def test_a_uuid_of_ones_own_needs_a_referrer_too(front: Front) -> None:
    answer = await front.post(f"{DATABASE}/{uuid.uuid4()}", json={})
    assert (answer.status_code, answer.json()["message"]) == (400, "Missing referrer")


async def test_a_uuid_that_exists_creates_nothing_and_tells_nothing(front: Front, made: dict[str, Any]) -> None:
    taken = await front.post(f"{DATABASE}/{made['id']}?referrer=tool", json={})
    senseless = await front.post(f"{DATABASE}/senseless?referrer=tool", json={})
    assert taken.status_code == senseless.status_code == 400
    told, other = taken.json(), senseless.json()
    assert {**told, "request_id": ""} == {**other, "request_id": ""}
    assert (await front.get(made["id"])).json() == made


async def test_no_authentication_is_asked_for_and_a_key_changes_nothing(front: Front) -> None:
    answer = await front.post(json={"ref": "a"}, headers={"Authorization": "Bearer nonsense"})
    assert answer.status_code == 201


async def test_its_description_is_served_and_is_no_part_of_the_other_apis(front: Front) -> None:
    async with front.client() as client:
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
    front: Front, made: dict[str, Any], limit: str, unclaimed: int, claimed: int
) -> None:
    async with front.platform.store.read() as rows:
        project = await rows.projects.get(ProjectId(made["neon_project_id"]))
        assert project is not None
        owner = await rows.organizations.get(project.org_id)
    assert owner is not None
    assert getattr(front.settings.plan(owner.plan), limit) == unclaimed
    assert getattr(front.settings.plan("free"), limit) == claimed


async def test_nobody_reaches_an_unclaimed_one_by_the_management_api(front: Front, made: dict[str, Any]) -> None:
    """So there are no branches of it, whatever key somebody has."""
    path = f"/api/v2/projects/{made['neon_project_id']}/branches"
    answer = await front.platform.client.post(path, json={})
    assert answer.status_code == 404
