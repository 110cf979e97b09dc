"""Connection URIs: role, endpoint and host."""

from typing import Any

import httpx2
import pytest

from support.api_app import ApiApp
from support.api_client import Caller, Json

DEFAULTS = {"role_name": "neondb_owner", "database_name": "neondb"}


async def _asked(caller: Caller, project_id: str, **query: Any) -> httpx2.Response:
    return await caller.client.get(f"/projects/{project_id}/connection_uri", params={**DEFAULTS, **query})


async def _uri(caller: Caller, created: Json, **query: Any) -> str:
    response = await _asked(caller, created["project"]["id"], **query)
    assert response.status_code == 200, response.text
    return str(response.json()["uri"])


async def test_it_is_the_one_that_the_project_was_made_with(caller: Caller) -> None:
    created = await caller.create_project()
    expected = created["connection_uris"][0]["connection_uri"]
    branch_id, endpoint_id = created["branch"]["id"], created["endpoints"][0]["id"]
    assert await _uri(caller, created) == expected
    assert await _uri(caller, created, branch_id=branch_id) == expected
    assert await _uri(caller, created, endpoint_id=endpoint_id) == expected
    assert await _uri(caller, created, branch_id=branch_id, endpoint_id=endpoint_id, pooled=False) == expected


async def test_the_pooled_one_has_the_poolers_host(caller: Caller) -> None:
    created = await caller.create_project()
    pooled = await _uri(caller, created, pooled=True)
    parameters = created["connection_uris"][0]["connection_parameters"]
    assert f"@{parameters['pooler_host']}/" in pooled
    assert pooled.replace("-pooler", "") == await _uri(caller, created)


async def test_names_are_quoted(caller: Caller) -> None:
    created = await caller.create_project(branch={"role_name": "a.b@c:d/e", "database_name": "x?y#z é"})
    uri = await _uri(caller, created, role_name="a.b@c:d/e", database_name="x?y#z é")
    assert uri.startswith("postgresql://a%2Eb%40c%3Ad%2Fe:")
    assert "/x%3Fy%23z%20%C3%A9?channel_binding=require&sslmode=require" in uri
    assert uri == created["connection_uris"][0]["connection_uri"]


@pytest.mark.parametrize(
    ("query", "noun"),
    [
        ({"role_name": "nobody"}, "role"),
        ({"role_name": "NEONDB_OWNER"}, "role"),
        ({"database_name": "nothing"}, "database"),
        ({"branch_id": "br-no-such-branch"}, "branch"),
        ({"endpoint_id": "ep-no-such-endpoint"}, "endpoint"),
    ],
)
async def test_what_is_not_there_is_not_found(caller: Caller, query: Json, noun: str) -> None:
    created = await caller.create_project()
    response = await _asked(caller, created["project"]["id"], **query)
    assert response.status_code == 404
    assert response.json()["message"].startswith(f"The requested {noun} could not be found")


async def test_branches_and_endpoints_of_other_projects_are_not_found(caller: Caller) -> None:
    created, other = await caller.create_project(), await caller.create_project()
    project_id = created["project"]["id"]
    assert (await _asked(caller, project_id, branch_id=other["branch"]["id"])).status_code == 404
    assert (await _asked(caller, project_id, endpoint_id=other["endpoints"][0]["id"])).status_code == 404


async def test_an_endpoint_must_be_on_the_branch_that_is_named(caller: Caller) -> None:
    created = await caller.create_project()
    endpoint_id = created["endpoints"][0]["id"]
    response = await _asked(caller, created["project"]["id"], endpoint_id=endpoint_id, branch_id="br-some-other-one")
    assert response.status_code == 400
    assert "is not on the branch" in response.json()["message"]


@pytest.mark.parametrize("query", ["", "?role_name=r", "?database_name=d", "?role_name=r&database_name=d&pooled=maybe"])
async def test_an_incomplete_question_is_refused(caller: Caller, query: str) -> None:
    created = await caller.create_project()
    response = await caller.client.get(f"/projects/{created['project']['id']}/connection_uri{query}")
    assert response.status_code == 400


async def test_without_stored_passwords_it_cannot_be_told_again(caller: Caller) -> None:
    created = await caller.create_project(store_passwords=False)
    assert created["roles"][0]["password"] in created["connection_uris"][0]["connection_uri"]
    response = await _asked(caller, created["project"]["id"])
    assert response.status_code == 412
    assert "does not store passwords" in response.json()["message"]


async def test_the_domain_and_the_port_are_settings(api_app: ApiApp, caller: Caller) -> None:
    elsewhere = ApiApp(api_app.platform, domain="db.example", gateway_port=6543)
    created = await caller.create_project()
    async with caller.client_for(elsewhere) as client:
        response = await client.get(f"/projects/{created['project']['id']}/connection_uri", params=DEFAULTS)
    endpoint_id = created["endpoints"][0]["id"]
    assert f"@{endpoint_id}.us-east-2.aws.db.example:6543/neondb?" in response.json()["uri"]
