"""schemathesis reads our own OpenAPI document and tries to break what it promises."""

import secrets
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.accounts import add_account, add_key, end_work
from compat.described import api
from compat.listener import Listener

CONFORMANCE = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture
def key_header(listening_front: Listener) -> dict[str, str]:
    """A key of an account of its own, with an id that no test will guess and revoke."""
    assert listening_front.parts is not None
    account = listening_front.ask(add_account(listening_front.parts))
    token = listening_front.ask(add_key(listening_front.parts, account, id=secrets.randbits(60)))
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def known_ids(listening_front: Listener, key_header: dict[str, str]) -> dict[str, Any]:
    """Ids of things that are there: schemathesis would hardly guess one."""
    assert listening_front.parts is not None
    with httpx2.Client(base_url=f"{listening_front.url}/api/v2", headers=key_header) as client:
        made = client.post("/projects", json={"project": {"name": "found"}}).json()
        key = client.post("/api_keys", json={"key_name": "found"}).json()
        team = client.post("/bough/organizations", json={"name": "found"}).json()["id"]
        (admin,) = client.get(f"/organizations/{team}/members").json()["members"]
        asked = {"invitations": [{"email": "found@example.com", "role": "viewer"}]}
        (invitation,) = client.post(f"/organizations/{team}/invitations", json=asked).json()["invitations"]
        project_id = made["project"]["id"]
        listening_front.ask(end_work(listening_front.parts, project_id))
        granted = client.post(f"/projects/{project_id}/permissions", json={"email": "found@example.com"}).json()
        offer = client.post(f"/projects/{project_id}/transfer_requests").json()
    return {
        "project_id": project_id,
        "endpoint_id": made["endpoints"][0]["id"],
        "operation_id": made["operations"][0]["id"],
        "branch_id": made["branch"]["id"],
        "role_name": "neondb_owner",
        "database_name": "neondb",
        "key_id": key["id"],
        "org_id": team,
        "source_org_id": team,
        "permission_id": granted["id"],
        "request_id": offer["id"],
        "member_id": admin["member"]["id"],
        "invitation_id": invitation["id"],
    }


@api.parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck))  # the platform is shared, and may be slow
def test_no_answer_is_a_500_or_outside_its_schema(
    case: schemathesis.Case[Any], listening_front: Listener, key_header: dict[str, str], known_ids: dict[str, Any]
) -> None:
    checks = [*CONFORMANCE, negative_data_rejection]
    case.call_and_validate(base_url=listening_front.url, headers=key_header, checks=checks)
    if named := case.path_parameters.keys() & known_ids.keys():
        case.path_parameters.update({name: known_ids[name] for name in named})
        case.call_and_validate(base_url=listening_front.url, headers=key_header, checks=CONFORMANCE)
