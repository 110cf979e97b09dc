"""schemathesis tests the API against its own OpenAPI document."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from compat.openapi_schema import openapi_schema
from compat.server_thread import ServerThread
from support.accounts import add_account, add_key, finish_operations

CONFORMANCE = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

# Generated requests per operation, besides the edge cases of its schema.
EXAMPLES = 8 if settings().max_examples < 100 else settings().max_examples


@dataclass(frozen=True)
class Known:
    """A user with a key and the ids of the user's objects, which schemathesis could not guess."""

    headers: dict[str, str]
    ids: dict[str, Any]


@pytest.fixture(scope="session")
def rights_setup(_api_server: ServerThread) -> Known:
    """Used for all read-only operations."""
    return _known(_api_server)


@pytest.fixture
def known(request: pytest.FixtureRequest, api_server: ServerThread) -> Known:
    if request.node.operation_label.startswith("GET "):
        found: Known = request.getfixturevalue("rights_setup")
        return found
    return _known(api_server)


@pytest.fixture(scope="session")
def session() -> Iterator[requests.Session]:
    """Reuses connections and does not read the proxy variables for each request."""
    with requests.Session() as opened:
        opened.trust_env = False
        yield opened


def _known(app: ServerThread) -> Known:
    """Uses a separate account, so that no test can guess and revoke its key."""
    assert app.services is not None
    account = app.run_coroutine(add_account(app.services))
    token = app.run_coroutine(add_key(app.services, account, id=secrets.randbits(60)))
    headers = {"Authorization": f"Bearer {token}"}
    # No TLS is used here, and loading the system's certificates takes longer than all requests.
    with httpx2.Client(base_url=f"{app.url}/api/v2", headers=headers, verify=False) as client:
        created = client.post("/projects", json={"project": {"name": "found"}}).json()
        key = client.post("/api_keys", json={"key_name": "found"}).json()
        team = client.post("/bough/organizations", json={"name": "found"}).json()["id"]
        (admin,) = client.get(f"/organizations/{team}/members").json()["members"]
        requested = {"invitations": [{"email": "found@example.com", "role": "viewer"}]}
        (invitation,) = client.post(f"/organizations/{team}/invitations", json=requested).json()["invitations"]
        project_id = created["project"]["id"]
        app.run_coroutine(finish_operations(app.services, project_id))
        granted = client.post(f"/projects/{project_id}/permissions", json={"email": "found@example.com"}).json()
        offer = client.post(f"/projects/{project_id}/transfer_requests").json()
        snapshot = client.post(f"/projects/{project_id}/branches/{created['branch']['id']}/snapshot").json()["snapshot"]
        app.run_coroutine(finish_operations(app.services, project_id))
    ids = {
        "project_id": project_id,
        "endpoint_id": created["endpoints"][0]["id"],
        "operation_id": created["operations"][0]["id"],
        "branch_id": created["branch"]["id"],
        "role_name": "neondb_owner",
        "database_name": "neondb",
        "key_id": key["id"],
        "org_id": team,
        "source_org_id": team,
        "permission_id": granted["id"],
        "request_id": offer["id"],
        "member_id": admin["member"]["id"],
        "invitation_id": invitation["id"],
        "snapshot_id": snapshot["id"],
    }
    return Known(headers, ids)


def _has_bad_path(case: schemathesis.Case[Any]) -> bool:
    assert case.meta is not None
    path = case.meta.components.get(ParameterLocation.PATH)
    return path is not None and path.mode.is_negative


@openapi_schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))  # the platform is shared
def test_no_answer_is_a_500_or_outside_its_schema(
    case: schemathesis.Case[Any], api_server: ServerThread, session: requests.Session, known: Known, is_long_run: bool
) -> None:
    """Schema edge cases go only to existing objects in the everyday tier."""
    ask = partial(case.call_and_validate, base_url=api_server.url, session=session, headers=known.headers)
    ids = {name: known.ids[name] for name in case.path_parameters.keys() & known.ids.keys()}
    bad_path, is_edge = _has_bad_path(case), case.meta is not None and case.meta.phase.name is TestPhase.COVERAGE
    twice = is_long_run or not is_edge
    if twice or bad_path or not ids:
        ask(checks=[*CONFORMANCE, negative_data_rejection])
    if ids and (twice or not bad_path):
        case.path_parameters.update(ids)
        ask(checks=CONFORMANCE)
