"""Authentication: every route accepts only known, active keys."""

from typing import Any

import pytest

from bough.domain.api_key import KeyKind
from support.api_app import ApiApp
from support.api_client import Caller
from support.contract import Operation
from support.routes import fill_path, list_routes

BRANCHES = "/projects/{project_id}/branches"
BRANCH = f"{BRANCHES}/{{branch_id}}"
ENDPOINTS = "/projects/{project_id}/endpoints"
SNAPSHOTS = "/projects/{project_id}/snapshots"
SNAPSHOT = f"{SNAPSHOTS}/{{snapshot_id}}"
ORGANIZATION = "/organizations/{org_id}"
PROJECT_ROLE = "/projects/{project_id}/members/{member_id}/role"
TRANSFERS = ("/organizations/{source_org_id}/projects/transfer", "/users/me/projects/transfer")
BODIES: dict[Operation, Any] = {
    Operation("POST", BRANCHES): {},
    Operation("PATCH", BRANCH): {"branch": {}},
    Operation("POST", f"{BRANCH}/restore"): {"source_branch_id": "br-none"},
    Operation("PUT", f"{BRANCH}/backup_schedule"): {"schedule": []},
    Operation("PATCH", SNAPSHOT): {"snapshot": {}},
    Operation("POST", f"{BRANCH}/roles"): {"role": {"name": "app"}},
    Operation("POST", f"{BRANCH}/databases"): {"database": {"name": "app", "owner_name": "app"}},
    Operation("PATCH", f"{BRANCH}/databases/{{database_name}}"): {"database": {}},
    Operation("POST", ENDPOINTS): {"endpoint": {"branch_id": "br-none", "type": "read_write"}},
    Operation("POST", "/projects"): {"project": {}},
    Operation("PATCH", "/projects/{project_id}"): {"project": {}},
    Operation("PATCH", "/projects/{project_id}/endpoints/{endpoint_id}"): {"endpoint": {}},
    Operation("POST", "/api_keys"): {"key_name": "mine"},
    Operation("POST", f"{ORGANIZATION}/api_keys"): {"key_name": "ours"},
    Operation("POST", "/projects/{project_id}/permissions"): {"email": "a@example.com"},
    Operation("PUT", PROJECT_ROLE): {"role": "viewer"},
    **{Operation("POST", path): {"destination_org_id": "org-none", "project_ids": ["p"]} for path in TRANSFERS},
    Operation("PATCH", f"{ORGANIZATION}/members/{{member_id}}"): {"role": "viewer"},
    Operation("POST", f"{ORGANIZATION}/invitations"): {"invitations": [{"email": "a@example.com", "role": "viewer"}]},
    Operation("POST", "/bough/organizations"): {"name": "team"},
    Operation("POST", "/bough/users"): {"email": "ada@example.com"},
    Operation("PATCH", f"/bough{ORGANIZATION}"): {"name": "team"},
}
QUERIES = {Operation("GET", "/projects/{project_id}/connection_uri"): "?role_name=r&database_name=d"}

# The status of each route with a valid key if the project or key in the path does not exist.
AUTHORIZATION_CASES = {
    **{Operation(method, BRANCHES): 404 for method in ("GET", "POST")},
    **{Operation(method, BRANCH): 404 for method in ("GET", "PATCH", "DELETE")},
    Operation("GET", f"{BRANCHES}/count"): 404,
    Operation("GET", f"{BRANCH}/endpoints"): 404,
    Operation("POST", f"{BRANCH}/restore"): 404,
    Operation("POST", f"{BRANCH}/recover"): 404,
    Operation("POST", f"{BRANCH}/finalize_restore"): 404,
    Operation("POST", f"{BRANCH}/snapshot"): 404,
    **{Operation(method, f"{BRANCH}/backup_schedule"): 404 for method in ("GET", "PUT")},
    Operation("GET", SNAPSHOTS): 404,
    **{Operation(method, SNAPSHOT): 404 for method in ("PATCH", "DELETE")},
    Operation("POST", f"{SNAPSHOT}/restore"): 404,
    Operation("POST", f"{BRANCH}/set_as_default"): 404,
    Operation("POST", f"{BRANCH}/set_as_primary"): 404,
    **{Operation(method, f"{BRANCH}/roles"): 404 for method in ("GET", "POST")},
    **{Operation(method, f"{BRANCH}/roles/{{role_name}}"): 404 for method in ("GET", "DELETE")},
    Operation("GET", f"{BRANCH}/roles/{{role_name}}/reveal_password"): 404,
    Operation("POST", f"{BRANCH}/roles/{{role_name}}/reset_password"): 404,
    **{Operation(method, f"{BRANCH}/databases"): 404 for method in ("GET", "POST")},
    **{Operation(method, f"{BRANCH}/databases/{{database_name}}"): 404 for method in ("GET", "PATCH", "DELETE")},
    Operation("POST", ENDPOINTS): 404,
    Operation("DELETE", f"{ENDPOINTS}/{{endpoint_id}}"): 404,
    Operation("GET", "/projects"): 200,
    Operation("POST", "/projects"): 201,
    Operation("GET", "/projects/shared"): 200,
    Operation("GET", "/projects/{project_id}"): 404,
    Operation("PATCH", "/projects/{project_id}"): 404,
    Operation("DELETE", "/projects/{project_id}"): 404,
    Operation("POST", "/projects/{project_id}/recover"): 404,
    Operation("GET", "/projects/{project_id}/connection_uri"): 404,
    Operation("GET", "/projects/{project_id}/endpoints"): 404,
    Operation("GET", "/projects/{project_id}/endpoints/{endpoint_id}"): 404,
    Operation("PATCH", "/projects/{project_id}/endpoints/{endpoint_id}"): 404,
    Operation("POST", "/projects/{project_id}/endpoints/{endpoint_id}/start"): 404,
    Operation("POST", "/projects/{project_id}/endpoints/{endpoint_id}/suspend"): 404,
    Operation("POST", "/projects/{project_id}/endpoints/{endpoint_id}/restart"): 404,
    Operation("GET", "/projects/{project_id}/operations"): 404,
    Operation("GET", "/projects/{project_id}/operations/{operation_id}"): 404,
    Operation("GET", "/api_keys"): 200,
    Operation("POST", "/api_keys"): 200,
    Operation("DELETE", "/api_keys/{key_id}"): 404,
    Operation("GET", "/auth"): 200,
    Operation("GET", "/users/me"): 200,
    Operation("GET", "/users/me/organizations"): 200,
    Operation("GET", "/regions"): 200,
    Operation("GET", ORGANIZATION): 404,
    **{Operation(method, f"{ORGANIZATION}/api_keys"): 404 for method in ("GET", "POST")},
    Operation("DELETE", f"{ORGANIZATION}/api_keys/{{key_id}}"): 404,
    **{Operation(method, "/projects/{project_id}/permissions"): 404 for method in ("GET", "POST")},
    Operation("DELETE", "/projects/{project_id}/permissions/{permission_id}"): 404,
    Operation("GET", "/projects/{project_id}/members"): 404,
    **{Operation(method, PROJECT_ROLE): 404 for method in ("PUT", "DELETE")},
    **{Operation("POST", path): 404 for path in TRANSFERS},
    Operation("POST", "/projects/{project_id}/transfer_requests"): 404,
    Operation("PUT", "/projects/{project_id}/transfer_requests/{request_id}"): 404,
    Operation("GET", f"{ORGANIZATION}/members"): 404,
    **{Operation(method, f"{ORGANIZATION}/members/{{member_id}}"): 404 for method in ("GET", "PATCH", "DELETE")},
    **{Operation(method, f"{ORGANIZATION}/invitations"): 404 for method in ("GET", "POST")},
    Operation("POST", "/bough/organizations"): 201,
    Operation("PATCH", f"/bough{ORGANIZATION}"): 404,
    Operation("DELETE", f"/bough{ORGANIZATION}/invitations/{{invitation_id}}"): 404,
    Operation("GET", "/bough/invitations"): 200,
    Operation("GET", "/bough/audit"): 200,
    **{Operation(method, "/bough/users"): 403 for method in ("GET", "POST")},
    Operation("POST", "/bough/users/{user_id}/reset"): 403,
    Operation("POST", "/bough/invitations/{invitation_id}/accept"): 404,
}


def test_no_route_lacks_an_authorization_case() -> None:
    assert set(list_routes()) == set(AUTHORIZATION_CASES)


@pytest.mark.parametrize("operation", sorted(AUTHORIZATION_CASES), ids=" ".join)
async def test_every_route_asks_for_a_key(api_app: ApiApp, caller: Caller, operation: Operation) -> None:
    path = fill_path(operation) + QUERIES.get(operation, "")
    async with api_app.client() as anonymous, api_app.client("bough_key_" + "x" * 55) as forger:
        for client in (anonymous, forger):
            response = await client.request(operation.method, path, json=BODIES.get(operation))
            assert response.status_code == 401, response.text
            assert response.headers["www-authenticate"] == "Bearer"
    response = await caller.client.request(operation.method, path, json=BODIES.get(operation))
    assert response.status_code == AUTHORIZATION_CASES[operation], response.text


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"project": 7}', b" " * 2_000_000])
async def test_nobodys_body_is_read_before_they_are_known(api_app: ApiApp, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with ApiApp(api_app.platform, rate_per_minute_and_address=1).client() as anonymous:
        statuses = [(await anonymous.post("/projects", content=body, headers=headers)).status_code for _ in range(2)]
    assert statuses == [401, 429]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Token {}",
        "{}",
        "Bearer {}x",
        "Bearer {} extra",
        "Bearer Bearer {}",
        "Bearer caf\u00e9",
        "Bearer " + "x" * 8000,
    ],
)
async def test_other_headers_do_not_open_the_door(api_app: ApiApp, caller: Caller, header: str) -> None:
    value = header.format(caller.token).encode("latin-1")
    async with api_app.client() as client:
        response = await client.get("/auth", headers={b"Authorization": value})
    assert response.status_code == 401
    assert response.json()["message"]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
async def test_the_scheme_is_read_without_case(api_app: ApiApp, caller: Caller, scheme: str) -> None:
    async with api_app.client() as client:
        assert (await client.get("/auth", headers={"Authorization": f"{scheme} {caller.token}"})).status_code == 200


async def test_the_public_part_of_a_key_opens_nothing(api_app: ApiApp, caller: Caller) -> None:
    public, secret = caller.token[:22], caller.token[22:]
    for token in (public, public + "A" * len(secret), public + secret[:-1], public + secret.swapcase()):
        async with api_app.client(token) as client:
            assert (await client.get("/auth")).status_code == 401


async def test_a_revoked_key_stops_at_once(api_app: ApiApp, caller: Caller) -> None:
    created = (await caller.client.post("/api_keys", json={"key_name": "short-lived"})).json()
    async with api_app.client(created["key"]) as client:
        assert (await client.get("/auth")).status_code == 200
        assert (await caller.client.delete(f"/api_keys/{created['id']}")).status_code == 200
        assert (await client.get("/auth")).status_code == 401


async def test_a_key_can_revoke_itself(caller: Caller) -> None:
    (own,) = (await caller.client.get("/api_keys")).json()
    assert (await caller.client.delete(f"/api_keys/{own['id']}")).json()["revoked"] is True
    assert (await caller.client.get("/auth")).status_code == 401


async def test_an_organization_key_reaches_its_projects_but_no_person(api_app: ApiApp, caller: Caller) -> None:
    project_id = await caller.create_ready_project()
    async with api_app.client(await caller.create_key(KeyKind.ORGANIZATION)) as client:
        assert (await client.get(f"/projects/{project_id}")).status_code == 200
        auth = (await client.get("/auth")).json()
        assert (auth["auth_method"], auth["account_id"]) == ("api_key_org", caller.organization.id)
        for path in ("/users/me", "/users/me/organizations", "/api_keys"):
            response = await client.get(path)
            assert (response.status_code, response.json()["message"]) == (404, "not allowed for organization API keys")


async def test_a_project_key_edits_its_project_and_nothing_else(api_app: ApiApp, caller: Caller) -> None:
    own, other, deleted = (
        await caller.create_ready_project(name="own"),
        await caller.create_ready_project(name="other"),
        await caller.create_ready_project(name="gone"),
    )
    await caller.client.delete(f"/projects/{deleted}")
    async with api_app.client(await caller.create_key(KeyKind.PROJECT, own)) as client:
        assert [each["id"] for each in (await client.get("/projects")).json()["projects"]] == [own]
        assert (await client.get("/projects", params={"recoverable": True})).json()["projects"] == []
        assert (await client.patch(f"/projects/{own}", json={"project": {"name": "mine"}})).status_code == 200
        assert (await client.get(f"/projects/{other}")).status_code == 404
        assert (await client.delete(f"/projects/{own}")).status_code == 403
        assert (await client.post("/projects", json={"project": {}})).status_code == 403
        assert (await client.post(f"/projects/{deleted}/recover")).status_code == 404
