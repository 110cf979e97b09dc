"""The published Python client against a listening platform, for each of its methods that is implemented."""

import inspect
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from neon_api import NeonAPI, NeonAPIError, schema

from compat.server_thread import ServerThread

MISSING = {"project_permissions", "project_permissions_grant", "project_permissions_revoke"}  # not implemented yet


@pytest.fixture
def client(platform_server: ServerThread) -> Iterator[NeonAPI]:
    created = NeonAPI(platform_server.key, base_url=f"{platform_server.url}/api/v2/")
    yield created
    created._session.close()


def _polled(client: NeonAPI, project_id: str) -> list[Any]:
    """Polls the project's operations until all have ended, as users of the client do."""
    deadline = time.monotonic() + 60
    ended = {schema.OperationStatus.finished, schema.OperationStatus.failed, schema.OperationStatus.skipped}
    operations = client.operations(project_id).operations
    for operation in operations:
        while client.operation(project_id, operation.id).operation.status not in ended:
            assert time.monotonic() < deadline, "the operations did not end"
            time.sleep(0.05)
    return [client.operation(project_id, each.id).operation for each in operations]


def test_a_projects_life(client: NeonAPI) -> None:
    name = f"python {uuid.uuid4()}"
    created = client.project_create(project={"name": name, "pg_version": 17}).project
    assert (created.name, created.pg_version) == (name, 17)
    operations = _polled(client, created.id)
    assert {each.action for each in operations} == {
        schema.OperationAction.create_timeline,
        schema.OperationAction.start_compute,
    }
    assert {each.status for each in operations} == {schema.OperationStatus.finished}

    assert created.id in [project.id for project in client.projects(limit=400).projects]
    assert client.project(created.id).project.name == name

    changed = client.project_update(
        created.id, project={"name": f"{name} II", "settings": {"block_vpc_connections": True}}
    )
    assert changed.project.name == f"{name} II"

    direct = client.connection_uri(created.id, "neondb", "neondb_owner").uri
    pooled = client.connection_uri(created.id, "neondb", "neondb_owner", pooled=True).uri
    before, after = direct.split(".", 1)
    assert pooled == f"{before}-pooler.{after}"

    assert client.project_delete(created.id).project.id == created.id
    with pytest.raises(NeonAPIError, match="could not be found"):
        client.project(created.id)


def test_pages(client: NeonAPI) -> None:
    created = [client.project_create(project={"name": f"page {number}"}).project.id for number in range(3)]
    newest = [project.id for project in client.projects(limit=1).projects]
    # The client's classes drop the cursor; its users read it from the plain response.
    cursor = client._request("GET", "projects", params={"limit": 1})["pagination"]["cursor"]
    older = [project.id for project in client.projects(limit=400, cursor=cursor).projects]
    assert [*newest, *older][:3] == created[::-1]
    for project_id in created:
        _polled(client, project_id)
        client.project_delete(project_id)


def test_keys(client: NeonAPI, platform_server: ServerThread) -> None:
    created = client.api_key_create(key_name="from python")
    assert created.key.startswith("bough_key_")
    assert "from python" in [key.name for key in client.api_keys()]
    other = NeonAPI(created.key, base_url=client.base_url)
    assert other.me().id == client.me().id
    assert client.api_key_revoke(created.id).revoked is True
    with pytest.raises(NeonAPIError, match="unknown or was revoked"):
        other.me()
    other._session.close()


def test_me(client: NeonAPI) -> None:
    me = client.me()
    assert me.billing_account.email == me.email
    assert me.projects_limit > 0


@pytest.mark.parametrize("fields", [{"pg_version": 99}, {"region_id": "moon"}, {"name": ""}])
def test_a_refusal_reaches_the_user_as_a_sentence(client: NeonAPI, fields: dict[str, Any]) -> None:
    with pytest.raises(NeonAPIError, match=r'"message":".+'):
        client.project_create(project=fields)


@pytest.fixture
def project(client: NeonAPI) -> Iterator[Any]:
    """Creates a project, waits for its operations, and returns the client's object."""
    created = client.project_create(project={"name": f"python {uuid.uuid4()}"}).project
    _polled(client, created.id)
    yield created
    _polled(client, created.id)
    client.project_delete(created.id)


def _actions(response: Any) -> list[str]:
    return [operation.action.value for operation in response.operations]


def _finished(client: NeonAPI, response: Any) -> None:
    """Waits for the operations of a response."""
    wanted = {operation.id for operation in response.operations}
    ended = [each for each in _polled(client, response.operations[0].project_id) if each.id in wanted]
    assert {each.status for each in ended} <= {schema.OperationStatus.finished, schema.OperationStatus.skipped}
    assert len(ended) == len(wanted)


def test_a_branchs_life(client: NeonAPI, project: Any) -> None:
    (main,) = client.branches(project.id).branches
    created = client.branch_create(project.id, branch={"name": "dev"}, endpoints=[{"type": "read_write"}])
    assert (created.branch.parent_id, _actions(created)) == (main.id, ["create_branch", "start_compute"])
    _finished(client, created)
    dev = client.branch(project.id, created.branch.id).branch
    assert (dev.name, dev.current_state, dev.default) == ("dev", "ready", False)

    newest = client.branches(project.id, limit=1).branches
    cursor = client._request("GET", f"projects/{project.id}/branches", params={"limit": 1})["pagination"]["next"]
    older = client.branches(project.id, limit=1, cursor=cursor).branches
    assert {each.id for each in [*newest, *older]} == {main.id, dev.id}

    changed = client.branch_update(project.id, dev.id, branch={"name": "next", "protected": True})
    assert (changed.branch.name, changed.branch.protected, changed.operations) == ("next", True, [])
    for default, other in ((dev, main), (main, dev)):
        assert client.branch_set_as_primary(project.id, default.id).branch.primary is True
        assert client.branch(project.id, other.id).branch.default is False
    with pytest.raises(NeonAPIError, match="it is protected"):
        client.branch_delete(project.id, dev.id)
    client.branch_update(project.id, dev.id, branch={"protected": False})
    deleted = client.branch_delete(project.id, dev.id)
    assert _actions(deleted) == ["suspend_compute"]  # its data is kept while it can be recovered
    _finished(client, deleted)
    with pytest.raises(NeonAPIError, match="branch could not be found"):
        client.branch(project.id, dev.id)


def test_an_endpoints_life(client: NeonAPI, project: Any) -> None:
    branch = client.branch_create(project.id, branch={"name": "served"})
    _finished(client, branch)
    created = client.endpoint_create(project.id, endpoint={"branch_id": branch.branch.id, "type": "read_write"})
    assert _actions(created) == ["start_compute"]
    _finished(client, created)
    endpoint = client.endpoint(project.id, created.endpoint.id).endpoint
    assert (endpoint.current_state, endpoint.branch_id) == (schema.EndpointState.active, branch.branch.id)
    assert endpoint.id in [each.id for each in client.endpoints(project.id).endpoints]

    changed = client.endpoint_update(project.id, endpoint.id, endpoint={"suspend_timeout_seconds": 90})
    assert changed.endpoint.suspend_timeout_seconds == 90
    for verb, state in (
        (client.endpoint_suspend, schema.EndpointState.idle),
        (client.endpoint_start, schema.EndpointState.active),
    ):
        _finished(client, verb(project.id, endpoint.id))
        assert client.endpoint(project.id, endpoint.id).endpoint.current_state == state

    _finished(client, client.endpoint_delete(project.id, endpoint.id))
    assert endpoint.id not in [each.id for each in client.endpoints(project.id).endpoints]


def test_roles_and_databases(client: NeonAPI, project: Any) -> None:
    branch_id = client.branches(project.id).branches[0].id
    created = client.role_create(project.id, branch_id, "app")
    assert created.role.password
    _finished(client, created)
    assert [role.name for role in client.roles(project.id, branch_id).roles] == ["app", "neondb_owner"]
    assert client.role(project.id, branch_id, "app").role.password is None
    reset = client.role_password_reset(project.id, branch_id, "app")
    assert reset.role.password not in (None, created.role.password)
    _finished(client, reset)
    # The client uses POST where the API has GET.
    with pytest.raises(NeonAPIError, match="does not support this method"):
        client.role_password_reveal(project.id, branch_id, "app")

    database = client.database_create(project.id, branch_id, database={"name": "shop", "owner_name": "app"}).database
    _polled(client, project.id)
    shown = client.database(project.id, branch_id, "shop").database
    assert (shown.id, shown.name, shown.owner_name) == (database.id, "shop", "app")
    changed = client.database_update(project.id, branch_id, "shop", database={"name": "store"}).database
    assert (changed.id, changed.name) == (database.id, "store")
    _polled(client, project.id)
    assert [each.name for each in client.databases(project.id, branch_id).databases] == ["neondb", "store"]
    with pytest.raises(NeonAPIError, match="owns the database 'store'"):
        client.role_delete(project.id, branch_id, "app")
    assert client.database_delete(project.id, branch_id, "store").database.name == "store"
    _polled(client, project.id)
    _finished(client, client.role_delete(project.id, branch_id, "app"))
    assert [role.name for role in client.roles(project.id, branch_id).roles] == ["neondb_owner"]
    assert len(client.databases(project.id, branch_id).databases) == 1


def test_the_hasty_way(client: NeonAPI) -> None:
    """Creates a project, a branch and its contents right after one another, without waiting or retrying."""
    project_id = client.project_create(project={"name": f"hasty {uuid.uuid4()}"}).project.id
    branch_id = client.branch_create(project_id, branch={"name": "dev"}, endpoints=[{"type": "read_write"}]).branch.id
    child_id = client.branch_create(project_id, branch={"parent_id": branch_id}).branch.id
    client.role_create(project_id, child_id, "app")
    client.database_create(project_id, child_id, database={"name": "shop", "owner_name": "app"})
    client.endpoint_create(project_id, endpoint={"branch_id": child_id, "type": "read_write"})
    operations = _polled(client, project_id)
    assert {each.status for each in operations} == {schema.OperationStatus.finished}
    assert {each.name for each in client.databases(project_id, child_id).databases} == {"neondb", "shop"}
    assert {each.current_state for each in client.branches(project_id).branches} == {"ready"}
    client.project_delete(project_id)


def test_no_call_of_the_client_is_forgotten() -> None:
    calls = {name for name, _ in inspect.getmembers(NeonAPI, inspect.isfunction) if not name.startswith("_")}
    driven = set(re.findall(r"client\.(\w+)\b", Path(__file__).read_text()))
    assert calls - driven == MISSING
