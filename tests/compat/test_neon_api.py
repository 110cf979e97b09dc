"""The published Python client drives a platform that listens, for every call of its that exists here."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from neon_api import NeonAPI, NeonAPIError, schema

from compat.listener import Listener


@pytest.fixture
def client(listening_platform: Listener) -> Iterator[NeonAPI]:
    made = NeonAPI(listening_platform.key, base_url=f"{listening_platform.url}/api/v2/")
    yield made
    made._session.close()


def _polled(client: NeonAPI, project_id: str) -> list[Any]:
    """The project's operations when all of them have ended, asked for one by one as the client's users do."""
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
    made = client.project_create(project={"name": name, "pg_version": 17}).project
    assert (made.name, made.pg_version) == (name, 17)
    operations = _polled(client, made.id)
    assert {each.action for each in operations} == {
        schema.OperationAction.create_timeline,
        schema.OperationAction.start_compute,
    }
    assert {each.status for each in operations} == {schema.OperationStatus.finished}

    assert made.id in [project.id for project in client.projects(limit=400).projects]
    assert client.project(made.id).project.name == name

    changed = client.project_update(made.id, project={"name": f"{name} II", "settings": {"hipaa": True}})
    assert changed.project.name == f"{name} II"

    direct = client.connection_uri(made.id, "neondb", "neondb_owner").uri
    pooled = client.connection_uri(made.id, "neondb", "neondb_owner", pooled=True).uri
    before, after = direct.split(".", 1)
    assert pooled == f"{before}-pooler.{after}"

    assert client.project_delete(made.id).project.id == made.id
    with pytest.raises(NeonAPIError, match="could not be found"):
        client.project(made.id)


def test_pages(client: NeonAPI) -> None:
    made = [client.project_create(project={"name": f"page {number}"}).project.id for number in range(3)]
    newest = [project.id for project in client.projects(limit=1).projects]
    # The client's own classes drop the cursor; its users read it from the plain answer.
    cursor = client._request("GET", "projects", params={"limit": 1})["pagination"]["cursor"]
    older = [project.id for project in client.projects(limit=400, cursor=cursor).projects]
    assert [*newest, *older][:3] == made[::-1]
    for project_id in made:
        _polled(client, project_id)
        client.project_delete(project_id)


def test_keys(client: NeonAPI, listening_platform: Listener) -> None:
    made = client.api_key_create(key_name="from python")
    assert made.key.startswith("bough_key_")
    assert "from python" in [key.name for key in client.api_keys()]
    other = NeonAPI(made.key, base_url=client.base_url)
    assert other.me().id == client.me().id
    assert client.api_key_revoke(made.id).revoked is True
    with pytest.raises(NeonAPIError, match="not known, or was revoked"):
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
