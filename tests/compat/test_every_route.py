"""Every implemented route is in the contract and responds as it says; the others are counted.

One test calls them all, so that the coverage is known in one process.
"""

import asyncio
from typing import Any

import asyncpg
import pytest

from bough import clock
from compat import audit_checks
from support.api_app import ApiApp
from support.api_client import Caller, create_caller
from support.contract import Contract, ContractOperation
from support.routes import list_routes

BRANCH = "/projects/{project_id}/branches/{branch_id}"
OURS = "/bough/"  # paths that extend the published API
LEGACY = ContractOperation("POST", f"{BRANCH}/set_as_primary")  # clients know it, but the contract does not
SUCCESS = {  # routes whose status is not 200
    ContractOperation("POST", path): 201
    for path in (
        "/projects",
        "/projects/{project_id}/branches",
        "/projects/{project_id}/endpoints",
        f"{BRANCH}/roles",
        f"{BRANCH}/databases",
        "/projects/{project_id}/transfer_requests",
    )
} | {
    ContractOperation("PUT", "/projects/{project_id}/transfer_requests/{request_id}"): 204,
    ContractOperation("DELETE", "/projects/{project_id}/snapshots/{snapshot_id}"): 202,
}


def test_every_route_of_ours_is_in_the_contract(contract: Contract) -> None:
    assert {each for each in list_routes() if not each.path.startswith(OURS)} - contract.operations == {LEGACY}
    assert len(list_routes()) >= 40


def test_what_is_built_and_what_is_missing_make_up_the_contract(
    contract: Contract, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = contract.operations - list_routes()
    assert len(contract.operations) == 86
    found = len(contract.operations & list_routes())
    assert len(missing) + found == 86
    with capsys.disabled():
        print(f"\n{found} of 86 operations of the contract are built; {len(missing)} are missing.")
    for operation in sorted(missing, key=lambda each: (each.path, each.method)):
        print(f"  missing: {operation.method} {operation.path}")


async def test_routes_that_are_missing_answer_like_the_others(contract: Contract, caller: Caller) -> None:
    """Routes that are not implemented respond with a 4xx status and the error body of the contract."""
    project_id = await caller.create_ready_project()
    for operation in contract.operations - list_routes():
        path = operation.path.replace("{project_id}", project_id).replace("{", "").replace("}", "")
        response = await caller.client.request(operation.method, path)
        assert response.status_code in (400, 404, 405), f"{operation}: {response.text}"


async def test_every_route_succeeds_in_the_shape_of_the_contract(
    contract: Contract, api_app: ApiApp, caller: Caller
) -> None:
    api_app.contract_checker.seen_operations.clear()
    responses = api_app.contract_checker.responses = []
    client = caller.client
    created = await caller.create_project(name="all of it")
    project_id = created["project"]["id"]
    project = f"/projects/{project_id}"
    for path in (
        "/auth",
        "/users/me",
        "/users/me/organizations",
        "/regions",
        "/api_keys",
        "/projects",
        "/projects/shared",
        project,
        f"{project}/available_preload_libraries",
    ):
        assert (await client.get(path)).status_code == 200
    assert (await client.get(f"{project}/operations", params={"limit": 1})).json()["pagination"]["cursor"]
    assert (await client.get(f"{project}/operations/{created['operations'][0]['id']}")).status_code == 200
    names = {"role_name": "neondb_owner", "database_name": "neondb"}
    assert (await client.get(f"{project}/connection_uri", params=names)).status_code == 200
    await caller.finish_operations(project_id)
    endpoint = f"{project}/endpoints/{created['endpoints'][0]['id']}"
    assert (await client.get(f"{project}/endpoints")).json()["endpoints"]
    assert (await client.get(endpoint)).status_code == 200
    assert (await client.get(f"/bough{endpoint}/metrics")).json()["series"]
    assert (await client.patch(endpoint, json={"endpoint": {"pooler_enabled": True}})).status_code == 200
    for verb in ("start", "suspend", "restart"):
        assert (await client.post(f"{endpoint}/{verb}")).status_code == 200
        await caller.finish_operations(project_id)
    async with api_app.client(api_app.platform.key) as operator:
        assert (await operator.post(f"/bough{endpoint}/restart")).json()["operation_ids"]
    await caller.finish_operations(project_id)
    await _consumption(caller, project_id)
    await _branches(caller, project)
    await _snapshots(caller, project, created["branch"]["id"])
    assert (await client.patch(project, json={"project": {"name": "new"}})).status_code == 200
    assert (await client.delete(project)).status_code == 200
    assert (await client.get("/projects", params={"recoverable": True})).json()["projects"]
    await caller.finish_operations(project_id)
    assert (await client.post(f"{project}/recover")).status_code == 200
    await _organizations(caller)
    await _sharing(caller)
    await _transfers(caller)
    key = (await client.post("/api_keys", json={"key_name": "ci"})).json()
    assert (await client.delete(f"/api_keys/{key['id']}")).json()["revoked"]
    await _operator(api_app)
    await _statements(caller)
    api_app.contract_checker.responses = None
    await audit_checks.check_audit_covers(api_app, responses)
    succeeded = {
        operation
        for operation, status in api_app.contract_checker.seen_operations
        if status == SUCCESS.get(operation, 200)
    }
    assert succeeded >= list_routes() & contract.operations, "a route has no success here: add one"


async def _consumption(caller: Caller, project_id: str) -> None:
    now = f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"
    query = {"from": now, "to": now, "granularity": "monthly", "org_id": caller.organization.id}
    more = {"metrics": "compute_unit_seconds", "project_ids": project_id}
    for path, parameters in (("account", {}), ("projects", {}), ("v2/projects", more), ("v2/branches", more)):
        response = await caller.client.get(f"/consumption_history/{path}", params=query | parameters)
        assert response.status_code == 200, response.text


async def _operator(app: ApiApp) -> None:
    """Calls every route of the operator."""
    async with app.client(app.platform.key) as operator:
        created = await operator.post("/bough/users", json={"email": "new@example.com"})
        assert created.status_code == 201
        assert created.json()["user"] in (await operator.get("/bough/users")).json()["users"]
        assert (await operator.post(f"/bough/users/{created.json()['user']['id']}/reset")).json()["link"]
        assert (await operator.get("/bough/audit", params={"action": "reset_user"})).json()["audit"]
        assert (await operator.get("/bough/machine/metrics")).json()["series"]


async def _statements(caller: Caller) -> None:
    """Calls every route of statements, which need a compute that runs."""
    created = await caller.create_project()
    platform = caller.api_app.platform
    await platform.run_operations()
    endpoint_id = created["endpoints"][0]["id"]
    path = f"/bough/projects/{created['project']['id']}/endpoints/{endpoint_id}"
    async with platform.connect(endpoint_id, "neondb_owner", "neondb") as db:
        running = asyncio.create_task(db.execute("select pg_catalog.pg_sleep(60)"))
        while not (listed := (await caller.client.get(f"{path}/statements")).json()["statements"]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        cancelled = await caller.client.post(f"{path}/statements/{listed[0]['handle']}/cancel")
        assert cancelled.status_code == 200
        with pytest.raises(asyncpg.QueryCanceledError):
            await running
        await db.execute("begin")
        [idle] = (await caller.client.get(f"{path}/statements")).json()["statements"]
        assert (await caller.client.post(f"{path}/statements/{idle['handle']}/terminate")).status_code == 200
    assert (await caller.client.get(f"{path}/statement_statistics")).json()["statements"]
    assert (await caller.client.delete(f"{path}/statement_statistics")).json() == {}
    assert (await caller.client.delete(path.removeprefix("/bough").partition("/endpoints")[0])).status_code == 200
    await platform.run_operations()


async def _organizations(caller: Caller) -> None:
    """Calls every route of organizations, members and invitations, including our extensions."""
    client = caller.client
    created = await client.post("/bough/organizations", json={"name": "team"})
    assert created.status_code == 201
    team = f"/organizations/{created.json()['id']}"
    assert (await client.patch(f"/bough{team}", json={"name": "crew"})).json()["name"] == "crew"
    assert (await client.get(team)).json()["name"] == "crew"
    invitee = await create_caller(caller.api_app)
    requested = {
        "invitations": [{"email": each, "role": "viewer"} for each in (invitee.user.email, "nobody@example.com")]
    }
    coming, deleted = (await client.post(f"{team}/invitations", json=requested)).json()["invitations"]
    assert len((await client.get(f"{team}/invitations")).json()["invitations"]) == 2
    assert (await client.delete(f"/bough{team}/invitations/{deleted['id']}")).json() == deleted
    assert (await invitee.client.get("/bough/invitations")).json()["invitations"][0]["id"] == coming["id"]
    member = (await invitee.client.post(f"/bough/invitations/{coming['id']}/accept")).json()
    await invitee.client.aclose()
    assert len((await client.get(f"{team}/members")).json()["members"]) == 2
    one = f"{team}/members/{member['id']}"
    assert (await client.get(one)).json() == member
    assert (await client.patch(one, json={"role": "editor"})).json()["role"] == "editor"
    assert (await client.delete(one)).json() == {}


async def _sharing(caller: Caller) -> None:
    """Calls the routes of organization keys, project permissions and project roles."""
    client = caller.client
    project = f"/projects/{await caller.create_ready_project()}"
    keys = f"/organizations/{caller.organization.id}/api_keys"
    for body in ({"key_name": "all"}, {"key_name": "one", "project_id": project.split("/")[2]}):
        key = (await client.post(keys, json=body)).json()
        assert key["id"] in [each["id"] for each in (await client.get(keys)).json()]
        assert (await client.delete(f"{keys}/{key['id']}")).json()["revoked"]
    granted = (await client.post(f"{project}/permissions", json={"email": "guest@example.com"})).json()
    assert (await client.get(f"{project}/permissions")).json() == {"project_permissions": [granted]}
    assert (await client.delete(f"{project}/permissions/{granted['id']}")).json()["revoked_at"]
    (member,) = (await client.get(f"{project}/members")).json()["project_members"]
    role = f"{project}/members/{member['member_id']}/role"
    assert (await client.put(role, json={"role": "viewer"})).json()["project_role"] == "viewer"
    assert (await client.delete(role)).status_code == 200


async def _transfers(caller: Caller) -> None:
    """Transfers a project and back."""
    client, project_id = caller.client, await caller.create_ready_project()
    own, team = caller.organization, await caller.create_organization()
    body = {"destination_org_id": team.id, "project_ids": [project_id]}
    assert (await client.post("/users/me/projects/transfer", json=body)).json() == {}
    back = {**body, "destination_org_id": own.id}
    assert (await client.post(f"/organizations/{team.id}/projects/transfer", json=back)).json() == {}
    offers = f"/projects/{project_id}/transfer_requests"
    offer = (await client.post(offers, json={"ttl_seconds": 60})).json()
    assert (await client.put(f"{offers}/{offer['id']}", json={"org_id": team.id})).status_code == 204


async def _branches(caller: Caller, project: str) -> None:
    """Calls every route of branches, endpoints, roles and databases."""
    client, project_id = caller.client, project.split("/")[2]
    created = (await client.post(f"{project}/branches", json={"branch": {"name": "dev"}})).json()
    await caller.finish_operations(project_id)
    branch = f"{project}/branches/{created['branch']['id']}"
    for path in (f"{project}/branches", f"{project}/branches/count", branch, f"{branch}/endpoints"):
        assert (await client.get(path)).status_code == 200
    assert (await client.patch(branch, json={"branch": {"name": "next"}})).status_code == 200
    requested = {"endpoint": {"branch_id": created["branch"]["id"], "type": "read_write"}}
    endpoint = (await client.post(f"{project}/endpoints", json=requested)).json()["endpoint"]["id"]
    await caller.finish_operations(project_id)
    assert (await client.delete(f"{project}/endpoints/{endpoint}")).status_code == 200
    await caller.finish_operations(project_id)
    things: dict[str, Any] = {
        "roles": {"role": {"name": "app"}},
        "databases": {"database": {"name": "app", "owner_name": "neondb_owner"}},
    }
    for kind, body in things.items():
        assert (await client.post(f"{branch}/{kind}", json=body)).status_code == 201
        await caller.finish_operations(project_id)
        assert (await client.get(f"{branch}/{kind}")).status_code == 200
        assert (await client.get(f"{branch}/{kind}/app")).status_code == 200
    assert (await client.get(f"{branch}/roles/app/reveal_password")).status_code == 200
    assert (await client.post(f"{branch}/roles/app/reset_password")).status_code == 200
    await caller.finish_operations(project_id)
    changed = {"database": {"owner_name": "app"}}
    assert (await client.patch(f"{branch}/databases/app", json=changed)).status_code == 200
    await caller.finish_operations(project_id)
    for path in (f"{branch}/databases/app", f"{branch}/roles/neondb_owner"):
        assert (await client.delete(path)).status_code in (200, 422)
        await caller.finish_operations(project_id)
    assert (await client.post(f"{branch}/roles", json={"role": {"name": "last"}})).status_code == 201
    await caller.finish_operations(project_id)
    assert (await client.delete(f"{branch}/roles/last")).status_code == 200
    await caller.finish_operations(project_id)
    default = (await client.get(f"{project}/branches", params={"sort_by": "created_at"})).json()["branches"][-1]["id"]
    assert (await client.post(f"{branch}/set_as_default")).status_code == 200
    assert (await client.post(f"{project}/branches/{default}/set_as_primary")).status_code == 200
    assert (await client.post(f"{branch}/restore", json={"source_branch_id": default})).status_code == 200
    await caller.finish_operations(project_id)
    assert (await client.delete(branch)).status_code == 200
    await caller.finish_operations(project_id)
    assert (await client.post(f"{branch}/recover")).status_code == 200


async def _snapshots(caller: Caller, project: str, branch_id: str) -> None:
    """Calls every route of snapshots, their schedules and restores."""
    client, project_id = caller.client, project.split("/")[2]
    branch = f"{project}/branches/{branch_id}"
    query = {"name": "first", "expires_at": "2999-01-01T00:00:00Z"}
    created = (await client.post(f"{branch}/snapshot", params=query)).json()
    await caller.finish_operations(project_id)
    assert (await client.get(f"{project}/snapshots")).json()["snapshots"] == [created["snapshot"]]
    snapshot = f"{project}/snapshots/{created['snapshot']['id']}"
    changed = {"snapshot": {"name": "kept", "expires_at": None}}
    assert (await client.patch(snapshot, json=changed)).json()["snapshot"]["name"] == "kept"
    daily = {"schedule": [{"frequency": "daily", "hour": 5, "retention_seconds": 86400}]}
    assert (await client.put(f"{branch}/backup_schedule", json=daily)).json() == {}
    assert (await client.get(f"{branch}/backup_schedule")).json() == daily
    restored = (await client.post(f"{snapshot}/restore", json={"name": "again"})).json()
    await caller.finish_operations(project_id)
    final = f"{project}/branches/{restored['branch']['id']}/finalize_restore"
    assert (await client.post(final, json={"name": "before"})).json()["operations"]
    await caller.finish_operations(project_id)
    assert (await client.delete(snapshot)).status_code == 202
    await caller.finish_operations(project_id)
