"""Authentication: every route accepts only known, active keys."""

from typing import Any

import pytest

from bough import clock
from bough.domain.api_key import KeyKind
from support.api_app import ApiApp
from support.api_client import Caller
from support.contract import ContractOperation
from support.routes import fill_path, list_routes

BRANCHES = "/projects/{project_id}/branches"
BRANCH = f"{BRANCHES}/{{branch_id}}"
ENDPOINTS = "/projects/{project_id}/endpoints"
SNAPSHOTS = "/projects/{project_id}/snapshots"
SNAPSHOT = f"{SNAPSHOTS}/{{snapshot_id}}"
ORGANIZATION = "/organizations/{org_id}"
PROJECT_ROLE = "/projects/{project_id}/members/{member_id}/role"
TRANSFERS = ("/organizations/{source_org_id}/projects/transfer", "/users/me/projects/transfer")
BODIES: dict[ContractOperation, Any] = {
    ContractOperation("POST", BRANCHES): {},
    ContractOperation("PATCH", BRANCH): {"branch": {}},
    ContractOperation("POST", f"{BRANCH}/restore"): {"source_branch_id": "br-none"},
    ContractOperation("PUT", f"{BRANCH}/backup_schedule"): {"schedule": []},
    ContractOperation("PATCH", SNAPSHOT): {"snapshot": {}},
    ContractOperation("POST", f"{BRANCH}/roles"): {"role": {"name": "app"}},
    ContractOperation("POST", f"{BRANCH}/databases"): {"database": {"name": "app", "owner_name": "app"}},
    ContractOperation("PATCH", f"{BRANCH}/databases/{{database_name}}"): {"database": {}},
    ContractOperation("POST", ENDPOINTS): {"endpoint": {"branch_id": "br-none", "type": "read_write"}},
    ContractOperation("POST", "/projects"): {"project": {}},
    ContractOperation("PATCH", "/projects/{project_id}"): {"project": {}},
    ContractOperation("PATCH", "/projects/{project_id}/endpoints/{endpoint_id}"): {"endpoint": {}},
    ContractOperation("POST", "/api_keys"): {"key_name": "mine"},
    ContractOperation("POST", f"{ORGANIZATION}/api_keys"): {"key_name": "ours"},
    ContractOperation("POST", "/projects/{project_id}/permissions"): {"email": "a@example.com"},
    ContractOperation("PUT", PROJECT_ROLE): {"role": "viewer"},
    **{ContractOperation("POST", path): {"destination_org_id": "org-none", "project_ids": ["p"]} for path in TRANSFERS},
    ContractOperation("PATCH", f"{ORGANIZATION}/members/{{member_id}}"): {"role": "viewer"},
    ContractOperation("POST", f"{ORGANIZATION}/invitations"): {
        "invitations": [{"email": "a@example.com", "role": "viewer"}]
    },
    ContractOperation("POST", "/bough/organizations"): {"name": "team"},
    ContractOperation("POST", "/bough/users"): {"email": "ada@example.com"},
    ContractOperation("PATCH", f"/bough{ORGANIZATION}"): {"name": "team"},
}
RANGE = f"?from={clock.now():%Y-%m-%dT%H:%M:%SZ}&to={clock.now():%Y-%m-%dT%H:%M:%SZ}&granularity=daily"
METRICS = "&org_id=org-x&metrics=compute_unit_seconds&project_ids=p"
QUERIES = {
    ContractOperation("GET", "/projects/{project_id}/connection_uri"): "?role_name=r&database_name=d",
    **{ContractOperation("GET", f"/consumption_history/{path}"): RANGE for path in ("account", "projects")},
    **{
        ContractOperation("GET", f"/consumption_history/v2/{path}"): RANGE + METRICS
        for path in ("projects", "branches")
    },
}

OUR_ENDPOINT = "/bough/projects/{project_id}/endpoints/{endpoint_id}"
STATEMENTS = (
    ("GET", "statement_statistics"),
    ("DELETE", "statement_statistics"),
    ("GET", "statements"),
    ("POST", "statements/{handle}/cancel"),
    ("POST", "statements/{handle}/terminate"),
)
# The status of each route with a valid key if the project or key in the path does not exist.
AUTHORIZATION_CASES = {
    **{ContractOperation(method, BRANCHES): 404 for method in ("GET", "POST")},
    **{ContractOperation(method, BRANCH): 404 for method in ("GET", "PATCH", "DELETE")},
    ContractOperation("GET", f"{BRANCHES}/count"): 404,
    ContractOperation("GET", f"{BRANCH}/endpoints"): 404,
    ContractOperation("POST", f"{BRANCH}/restore"): 404,
    ContractOperation("POST", f"{BRANCH}/recover"): 404,
    ContractOperation("POST", f"{BRANCH}/finalize_restore"): 404,
    ContractOperation("POST", f"{BRANCH}/snapshot"): 404,
    **{ContractOperation(method, f"{BRANCH}/backup_schedule"): 404 for method in ("GET", "PUT")},
    ContractOperation("GET", SNAPSHOTS): 404,
    **{ContractOperation(method, SNAPSHOT): 404 for method in ("PATCH", "DELETE")},
    ContractOperation("POST", f"{SNAPSHOT}/restore"): 404,
    ContractOperation("POST", f"{BRANCH}/set_as_default"): 404,
    ContractOperation("POST", f"{BRANCH}/set_as_primary"): 404,
    **{ContractOperation(method, f"{BRANCH}/roles"): 404 for method in ("GET", "POST")},
    **{ContractOperation(method, f"{BRANCH}/roles/{{role_name}}"): 404 for method in ("GET", "DELETE")},
    ContractOperation("GET", f"{BRANCH}/roles/{{role_name}}/reveal_password"): 404,
    ContractOperation("POST", f"{BRANCH}/roles/{{role_name}}/reset_password"): 404,
    **{ContractOperation(method, f"{BRANCH}/databases"): 404 for method in ("GET", "POST")},
    **{
        ContractOperation(method, f"{BRANCH}/databases/{{database_name}}"): 404 for method in ("GET", "PATCH", "DELETE")
    },
    ContractOperation("POST", ENDPOINTS): 404,
    ContractOperation("DELETE", f"{ENDPOINTS}/{{endpoint_id}}"): 404,
    ContractOperation("GET", "/projects"): 200,
    ContractOperation("POST", "/projects"): 201,
    ContractOperation("GET", "/projects/shared"): 200,
    ContractOperation("GET", "/projects/{project_id}"): 404,
    ContractOperation("PATCH", "/projects/{project_id}"): 404,
    ContractOperation("DELETE", "/projects/{project_id}"): 404,
    ContractOperation("POST", "/projects/{project_id}/recover"): 404,
    ContractOperation("GET", "/projects/{project_id}/connection_uri"): 404,
    ContractOperation("GET", "/projects/{project_id}/endpoints"): 404,
    ContractOperation("GET", "/projects/{project_id}/endpoints/{endpoint_id}"): 404,
    ContractOperation("PATCH", "/projects/{project_id}/endpoints/{endpoint_id}"): 404,
    ContractOperation("POST", "/projects/{project_id}/endpoints/{endpoint_id}/start"): 404,
    ContractOperation("POST", "/projects/{project_id}/endpoints/{endpoint_id}/suspend"): 404,
    ContractOperation("POST", "/projects/{project_id}/endpoints/{endpoint_id}/restart"): 404,
    ContractOperation("GET", "/projects/{project_id}/operations"): 404,
    ContractOperation("GET", "/projects/{project_id}/operations/{operation_id}"): 404,
    ContractOperation("GET", "/api_keys"): 200,
    ContractOperation("POST", "/api_keys"): 200,
    ContractOperation("DELETE", "/api_keys/{key_id}"): 404,
    ContractOperation("GET", "/auth"): 200,
    ContractOperation("GET", "/users/me"): 200,
    ContractOperation("GET", "/users/me/organizations"): 200,
    ContractOperation("GET", "/regions"): 200,
    ContractOperation("GET", ORGANIZATION): 404,
    **{ContractOperation(method, f"{ORGANIZATION}/api_keys"): 404 for method in ("GET", "POST")},
    ContractOperation("DELETE", f"{ORGANIZATION}/api_keys/{{key_id}}"): 404,
    **{ContractOperation(method, "/projects/{project_id}/permissions"): 404 for method in ("GET", "POST")},
    ContractOperation("DELETE", "/projects/{project_id}/permissions/{permission_id}"): 404,
    ContractOperation("GET", "/projects/{project_id}/members"): 404,
    **{ContractOperation(method, PROJECT_ROLE): 404 for method in ("PUT", "DELETE")},
    **{ContractOperation("POST", path): 404 for path in TRANSFERS},
    ContractOperation("POST", "/projects/{project_id}/transfer_requests"): 404,
    ContractOperation("PUT", "/projects/{project_id}/transfer_requests/{request_id}"): 404,
    ContractOperation("GET", f"{ORGANIZATION}/members"): 404,
    **{
        ContractOperation(method, f"{ORGANIZATION}/members/{{member_id}}"): 404 for method in ("GET", "PATCH", "DELETE")
    },
    **{ContractOperation(method, f"{ORGANIZATION}/invitations"): 404 for method in ("GET", "POST")},
    ContractOperation("POST", "/bough/organizations"): 201,
    ContractOperation("PATCH", f"/bough{ORGANIZATION}"): 404,
    ContractOperation("DELETE", f"/bough{ORGANIZATION}/invitations/{{invitation_id}}"): 404,
    ContractOperation("GET", "/bough/invitations"): 200,
    ContractOperation("GET", "/bough/audit"): 200,
    **{ContractOperation("GET", f"/consumption_history/{path}"): 200 for path in ("account", "projects")},
    **{ContractOperation("GET", f"/consumption_history/v2/{path}"): 404 for path in ("projects", "branches")},
    ContractOperation("GET", "/bough/extensions"): 200,
    ContractOperation("GET", "/projects/{project_id}/available_preload_libraries"): 404,
    **{ContractOperation(method, f"{OUR_ENDPOINT}/{path}"): 404 for method, path in STATEMENTS},
    ContractOperation("GET", "/bough/projects/{project_id}/maintenance"): 404,
    ContractOperation("GET", "/bough/postgres"): 403,
    ContractOperation("GET", "/bough/machine/metrics"): 403,
    ContractOperation("GET", f"/bough{BRANCH}/metrics"): 404,
    ContractOperation("GET", "/bough/projects/{project_id}/endpoints/{endpoint_id}/metrics"): 404,
    ContractOperation("POST", "/bough/projects/{project_id}/endpoints/{endpoint_id}/restart"): 403,
    **{ContractOperation(method, "/bough/users"): 403 for method in ("GET", "POST")},
    ContractOperation("POST", "/bough/users/{user_id}/reset"): 403,
    ContractOperation("POST", "/bough/invitations/{invitation_id}/accept"): 404,
}


def test_no_route_lacks_an_authorization_case() -> None:
    assert set(list_routes()) == set(AUTHORIZATION_CASES)


@pytest.mark.parametrize("operation", sorted(AUTHORIZATION_CASES), ids=" ".join)
async def test_every_route_asks_for_a_key(api_app: ApiApp, caller: Caller, operation: ContractOperation) -> None:
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
