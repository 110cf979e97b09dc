"""The internal API for the gateway: replies, rejected requests, and an error body for every failure."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio

from bough.api.gateway_api import GatewayApiApp
from bough.domain.pooler import PoolStats
from bough.ids import EndpointId
from support.api_app import ApiApp
from support.api_client import Caller

Json = dict[str, Any]


@pytest_asyncio.fixture(loop_scope="session")
async def control_plane(api_app: ApiApp) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=GatewayApiApp(api_app.platform.inner.gateway_api))
    async with httpx2.AsyncClient(transport=transport, base_url="http://plane/plane/v1", timeout=30) as client:
        yield client


async def post(control_plane: httpx2.AsyncClient, name: str, body: Any, status: int = 200) -> Json:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await control_plane.post(f"/{name}", content=content)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    reply: Json = response.json()
    return reply


async def test_access_has_one_shape(control_plane: httpx2.AsyncClient, caller: Caller) -> None:
    made = await caller.create_project()
    endpoint = made["endpoints"][0]["id"]
    known = await post(control_plane, "access", {"endpoint": endpoint, "role": "neondb_owner"})
    unknown = await post(control_plane, "access", {"endpoint": "ep-none", "role": "x"})
    shape = {"verifier", "is_known", "valid_until", "networks", "refusal", "pool", "closed", "read_only_hint"}
    shape |= {"closed_hint", "blocked_networks", "is_audited"}
    assert known.keys() == unknown.keys() == shape
    assert (known["is_known"], unknown["is_known"]) == (True, False)
    assert {name: type(value) for name, value in known.items()} == {
        name: type(value) for name, value in unknown.items()
    }


async def test_access_tells_how_the_endpoint_pools(control_plane: httpx2.AsyncClient, caller: Caller) -> None:
    asked = {"default_pool_size": "7", "query_wait_timeout": "1.5"}
    made = await caller.create_project(default_endpoint_settings={"pgbouncer_settings": asked})
    known = await post(control_plane, "access", {"endpoint": made["endpoints"][0]["id"], "role": "neondb_owner"})
    unknown = await post(control_plane, "access", {"endpoint": "ep-none", "role": "x"})
    assert unknown["pool"] == {
        "servers": 100,
        "servers_per_pool": 100,
        "wait_seconds": 120.0,
        "idle_seconds": 60.0,
        "lifetime_seconds": 3600.0,
        "statements": 200,
        "idle_transaction_seconds": 0.0,
        "client_idle_seconds": 0.0,
        "direct_host_too": False,
    }
    assert known["pool"] == {**unknown["pool"], "servers_per_pool": 7, "wait_seconds": 1.5}


async def test_any_name_may_be_asked_for(control_plane: httpx2.AsyncClient) -> None:
    for word in ("", "EP-UPPER", "ünï", "'; drop table roles; --", "x" * 1000):
        access = await post(control_plane, "access", {"endpoint": word, "role": word})
        assert not access["is_known"]


async def test_a_wake_of_nothing_is_not_found(control_plane: httpx2.AsyncClient) -> None:
    rejected = await post(control_plane, "wake", {"endpoint": str(EndpointId.new())}, 404)
    assert rejected.keys() == {"kind", "message"}
    assert rejected["kind"] == "not_found"


async def test_a_report_is_counted_and_answered(control_plane: httpx2.AsyncClient, caller: Caller) -> None:
    made = await caller.create_project()
    used = {"endpoint": made["endpoints"][0]["id"], "bytes_in": 5, "bytes_out": 2**40, "opened": 1, "is_active": True}
    for _ in range(2):
        report = {"worker": "6f1a2b3c-0000-4000-8000-000000000001", "sequence": 1, "endpoints": [used]}
        assert await post(control_plane, "report", report) == {"drop": []}
    shown = await caller.get_project(made["project"]["id"])
    assert shown["data_transfer_bytes"] == 2**40
    assert shown["compute_last_active_at"]


async def test_a_report_may_tell_of_pools(control_plane: httpx2.AsyncClient, api_app: ApiApp) -> None:
    endpoint, worker = EndpointId.new(), str(uuid.uuid4())

    async def report(sequence: int, **fields: Any) -> None:
        body = {"worker": worker, "sequence": sequence, "endpoints": [{"endpoint": endpoint, **fields}]}
        assert "drop" in await post(control_plane, "report", body)

    await report(
        1, pool={"clients_active": 1, "clients_waiting": 2, "waits": 3, "waited_seconds": 0.5, "newer": "word"}
    )
    assert api_app.services.activity.pools[endpoint] == PoolStats(clients_active=1, clients_waiting=2)
    await report(2, pool={"clients_idle": 4, "servers_active": 5, "servers_idle": 6})
    assert api_app.services.activity.pools[endpoint] == PoolStats(clients_idle=4, servers_active=5, servers_idle=6)
    await report(3, pool=None)
    assert endpoint not in api_app.services.activity.pools


async def test_what_is_malformed_is_refused_with_a_sentence(control_plane: httpx2.AsyncClient) -> None:
    bad: list[tuple[str, Any]] = [
        ("access", b""),
        ("access", b"{"),
        ("access", b"\xff"),
        ("access", []),
        ("access", {"endpoint": "e"}),
        ("access", {"endpoint": "e", "role": 7}),
        ("access", {"endpoint": "e\0", "role": "r"}),
        ("access", {"endpoint": "e", "role": "r" * 2000}),
        ("wake", {}),
        ("wake", {"endpoint": None}),
        ("report", {"worker": "w", "sequence": -1, "endpoints": []}),
        ("report", {"worker": "w", "sequence": 2**63, "endpoints": []}),
        ("report", {"worker": "w", "sequence": 1, "endpoints": [{"endpoint": "e", "bytes_in": -1}]}),
        ("report", {"worker": "w", "sequence": 1, "endpoints": {}}),
        ("report", {"worker": "w", "sequence": 1, "endpoints": [{"endpoint": "e", "pool": 7}]}),
        ("report", {"worker": "w", "sequence": 1, "endpoints": [{"endpoint": "e", "pool": {"clients_idle": -1}}]}),
        ("report", {"worker": "w", "sequence": 1, "endpoints": [{"endpoint": "e", "pool": {"waited_seconds": -1}}]}),
        ("report", b'{"worker":"w","sequence":1,"endpoints":[{"endpoint":"e","pool":{"waited_seconds":1e999}}]}'),
    ]
    for name, body in bad:
        rejected = await post(control_plane, name, body, 400)
        assert rejected["kind"] == "invalid"
        assert rejected["message"].startswith("The request is not valid: ")


async def test_there_are_only_these_questions(control_plane: httpx2.AsyncClient) -> None:
    assert (await control_plane.get("/access")).status_code == 404
    assert (await post(control_plane, "other", {}, 404))["kind"] == "not_found"
    assert (await control_plane.post("http://plane/plane/v2/access")).status_code == 404


async def test_a_body_without_end_is_not_kept(control_plane: httpx2.AsyncClient) -> None:
    rejected = await post(control_plane, "report", b" " * (17 * 1024 * 1024), 400)
    assert "over" in rejected["message"]
