"""Idempotency-Key: a repeated request is not carried out again and gets the first response."""

import asyncio
from typing import Any

import asyncpg
import httpx2
import pytest

from support.api_app import ApiApp
from support.api_client import Caller


async def _create(client: httpx2.AsyncClient, key: str, **fields: Any) -> httpx2.Response:
    return await client.post("/projects", json={"project": fields}, headers={"Idempotency-Key": key})


async def test_a_repetition_gets_the_same_answer_and_makes_nothing(caller: Caller) -> None:
    first = await _create(caller.client, "once", name="one")
    again = await _create(caller.client, "once", name="one")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert await caller.list_project_names() == ["one"]


async def test_without_a_key_every_request_is_new(caller: Caller) -> None:
    assert (await caller.create_project(name="one"))["project"]["id"] != (await caller.create_project(name="one"))[
        "project"
    ]["id"]


async def test_the_key_with_another_body_is_refused(caller: Caller) -> None:
    await _create(caller.client, "once", name="one")
    other = await _create(caller.client, "once", name="two")
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json()["message"]
    elsewhere = await caller.client.post("/api_keys", json={"key_name": "x"}, headers={"Idempotency-Key": "once"})
    assert elsewhere.status_code == 422
    assert await caller.list_project_names() == ["one"]


async def test_another_key_is_another_request(caller: Caller) -> None:
    for key in ("a", "b", "A", "a" * 255):
        assert (await _create(caller.client, key)).status_code == 201
    assert len(await caller.list_project_names()) == 4


async def test_the_same_key_of_another_caller_is_another_request(caller: Caller, stranger: Caller) -> None:
    mine = await _create(caller.client, "shared", name="one")
    theirs = await _create(stranger.client, "shared", name="one")
    assert theirs.status_code == 201
    assert "idempotency-replayed" not in theirs.headers
    assert theirs.json()["project"]["id"] != mine.json()["project"]["id"]


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_of_the_wrong_length_is_refused(caller: Caller, key: str) -> None:
    response = await _create(caller.client, key)
    assert response.status_code == 400
    assert "Idempotency-Key" in response.json()["message"]


async def test_duplicates_at_the_same_time_make_one_project(caller: Caller) -> None:
    answers = await asyncio.gather(*(_create(caller.client, "race", name="one") for _ in range(8)))
    statuses = sorted(response.status_code for response in answers)
    assert set(statuses) <= {201, 409}
    created = {response.json()["project"]["id"] for response in answers if response.status_code == 201}
    assert len(created) == 1
    assert await caller.list_project_names() == ["one"]
    assert (await _create(caller.client, "race", name="one")).json()["project"]["id"] in created


async def test_an_error_is_not_remembered(api_app: ApiApp, caller: Caller) -> None:
    assert (await _create(caller.client, "again", region_id="moon")).status_code == 400
    assert (await _create(caller.client, "again", name="one")).status_code == 201
    full = ApiApp(api_app.platform, plans={**api_app.settings.model_dump()["plans"], "unlimited": {"projects": 1}})
    async with caller.client_for(full) as client:
        assert (await _create(client, "later", name="two")).status_code == 422
    assert (await _create(caller.client, "later", name="two")).status_code == 201


async def test_a_new_key_is_given_once_and_shown_again(api_app: ApiApp, caller: Caller) -> None:
    headers = {"Idempotency-Key": "a key for CI"}
    first = await caller.client.post("/api_keys", json={"key_name": "ci"}, headers=headers)
    again = await caller.client.post("/api_keys", json={"key_name": "ci"}, headers=headers)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert len((await caller.client.get("/api_keys")).json()) == 2
    async with api_app.client(again.json()["key"]) as client:
        assert (await client.get("/auth")).status_code == 200


async def test_recovery_may_be_repeated(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    await caller.client.delete(f"/projects/{project_id}")
    await caller.finish_operations(project_id)
    headers = {"Idempotency-Key": "recover"}
    first = await caller.client.post(f"/projects/{project_id}/recover", headers=headers)
    again = await caller.client.post(f"/projects/{project_id}/recover", headers=headers)
    assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())


async def test_other_methods_ignore_the_key(caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    for name in ("a", "b"):
        response = await caller.client.patch(
            f"/projects/{project_id}", json={"project": {"name": name}}, headers={"Idempotency-Key": "same"}
        )
        assert response.status_code == 200
    assert (await caller.get_project(project_id))["name"] == "b"


async def test_secrets_lie_sealed_in_the_store(api_app: ApiApp, caller: Caller) -> None:
    project = (await _create(caller.client, "secret", name="findable-name")).json()
    key = (await caller.client.post("/api_keys", json={"key_name": "k"}, headers={"Idempotency-Key": "k"})).json()
    password = project["connection_uris"][0]["connection_parameters"]["password"]
    stored = await _stored(api_app)
    assert "findable-name" in stored
    for secret in (password, key["key"], key["key"][22:], caller.token):
        assert secret not in stored


async def _stored(app: ApiApp) -> str:
    """Returns the raw contents of the store."""
    if not app.settings.store_url:
        return "".join(path.read_bytes().decode("latin-1") for path in app.settings.home.glob("store.db*"))
    connection = await asyncpg.connect(app.settings.store_url)
    try:
        tables = await connection.fetch("select tablename from pg_tables where schemaname = 'public'")
        rows = [await connection.fetch(f'select t::text from "{name}" t') for (name,) in tables]
    finally:
        await connection.close()
    return "".join(text for each in rows for (text,) in each)
