"""Malicious input: the request is rejected, or the string is stored unchanged and has no effect."""

import pytest

from bough.ids import ProjectId
from instant.instant_app import DATABASE_PATH, InstantApp

HARMLESS = "'; drop table projects; -- <script>alert(1)</script> ${jndi:ldap://x} %s {0} ☃"


async def test_a_hostile_referrer_is_only_text(instant_app: InstantApp) -> None:
    created = await instant_app.create(ref=HARMLESS)
    async with instant_app.platform.store.read() as rows:
        found = await rows.instant_databases.get_by_project(ProjectId(created["neon_project_id"]))
    assert found is not None
    assert found.ref == HARMLESS


@pytest.mark.parametrize(
    "body",
    [
        b'{"ref": "a\\u0000b"}',
        b'{"ref": "a\\nSet-Cookie: x"}',
        b'{"ref": "a\\u202eb"}',
        b'{"ref": "' + b"x" * 201 + b'"}',
    ],
)
async def test_a_referrer_that_cannot_be_written_down_is_refused(instant_app: InstantApp, body: bytes) -> None:
    response = await instant_app.post(content=body)
    assert response.status_code == 400
    assert "printable" in response.json()["message"]


@pytest.mark.parametrize("body", [b'{"ref": "\\ud800"}', b'{"ref": "\xff"}'])
async def test_half_a_character_is_no_json(instant_app: InstantApp, body: bytes) -> None:
    response = await instant_app.post(content=body)
    assert (response.status_code, response.json()["message"]) == (500, "Failed to create the database.")


async def test_a_huge_body_is_refused(instant_app: InstantApp) -> None:
    response = await instant_app.post(content=b'{"ref": "' + b"x" * (instant_app.settings.body_limit + 1) + b'"}')
    assert response.status_code == 413
    assert "over" in response.json()["message"]
    assert response.json()["request_id"]


async def test_a_huge_id_is_no_id(instant_app: InstantApp) -> None:
    assert (await instant_app.get("1" * 5000)).status_code == 400
    assert (await instant_app.post(f"{DATABASE_PATH}/{'1' * 5000}?referrer=a", json={})).status_code == 400


async def test_parameters_that_nobody_knows_are_passed_over(instant_app: InstantApp) -> None:
    created = await instant_app.create(storage_bytes=10**15, org_id="org-operator")
    async with instant_app.platform.store.read() as rows:
        project = await rows.projects.get(ProjectId(created["neon_project_id"]))
    assert project is not None
    assert project.org_id == "org-unclaimed-databases"


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", DATABASE_PATH), ("DELETE", f"{DATABASE_PATH}/x"), ("GET", DATABASE_PATH)]
)
async def test_other_methods_are_not_taken(instant_app: InstantApp, method: str, path: str) -> None:
    async with instant_app.client() as client:
        assert (await client.request(method, path)).status_code == 405
