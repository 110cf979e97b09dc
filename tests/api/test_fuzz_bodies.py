"""Random request bodies: the response is never a 500 and always has the expected body."""

import json
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from bough.domain.pooler import SUPPORTED_SETTINGS
from support.api_client import Caller

BOUNDED = settings(
    max_examples=max(20, settings().max_examples // 4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

text = st.text(st.characters(codec="utf-8"), max_size=80) | st.sampled_from(["\0", "'; drop table", "%", "\\", "🌿"])
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=True, allow_infinity=True)
anything = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
pooler_settings = st.dictionaries(
    st.sampled_from(SUPPORTED_SETTINGS), st.integers(-1, 10_001).map(str) | st.just("transaction") | text, max_size=2
)
plausible: dict[str, Any] = {
    "name": st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60),
    "pg_version": st.sampled_from([17, 17, 17, 14, 19]),
    "store_passwords": st.booleans(),
    "history_retention_seconds": st.integers(0, 2_592_000),
    "autoscaling_limit_min_cu": st.floats(0.25, 1),
    "autoscaling_limit_max_cu": st.floats(0.5, 70),
    "region_id": st.sampled_from(["aws-us-east-2", "aws-us-east-2", "moon"]),
    "branch": st.fixed_dictionaries({}, optional={"name": st.text("ab c.", min_size=1), "role_name": st.text("a.-é")}),
    "settings": st.fixed_dictionaries(
        {},
        optional={
            "quota": st.fixed_dictionaries({}, optional={"active_time_seconds": st.integers(0, 2**63 - 1)}),
            "allowed_ips": st.fixed_dictionaries({"ips": st.lists(st.ip_addresses().map(str), max_size=3)}),
            "block_public_connections": st.booleans(),
        },
    ),
    "default_endpoint_settings": st.fixed_dictionaries(
        {},
        optional={
            "suspend_timeout_seconds": st.sampled_from([-1, 0, 59, 60, 604_800]),
            "pg_settings": st.dictionaries(st.sampled_from(["work_mem", "a.b"]), text, max_size=3),
            "pgbouncer_settings": pooler_settings,
        },
    ),
}


@st.composite
def almost_good(draw: st.DrawFn) -> dict[str, Any]:
    """Generates mostly valid fields, often with an invalid one."""
    requested: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=plausible))
    if draw(st.booleans()):
        requested[draw(st.sampled_from(sorted(plausible)))] = draw(anything)
    return requested


def as_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()  # keeps NaN and lone surrogates, which careless clients send


async def check(
    caller: Caller, method: str, path: str, body: bytes, fine: set[int], *also: int
) -> dict[str, Any] | None:
    """Checks that the response is a success or an error with a message."""
    response = await caller.client.request(method, path, content=body, headers={"Content-Type": "application/json"})
    if response.status_code in fine:
        good: dict[str, Any] = response.json()
        return good
    assert response.status_code in (400, 422, *also), response.text
    assert set(response.json()) == {"request_id", "code", "message"}
    assert response.json()["message"]
    return None


@BOUNDED
@given(body=anything)
async def test_any_json_as_a_body(caller: Caller, body: Any) -> None:
    for method, path in (
        ("POST", "/projects"),
        ("POST", "/api_keys"),
        ("PATCH", "/projects/quiet-sea-12345678"),
        ("PATCH", "/projects/quiet-sea-12345678/endpoints/ep-none"),
    ):
        await check(caller, method, path, as_bytes(body), {200, 201}, 404)


@BOUNDED
@given(requested=almost_good())
async def test_almost_good_projects(caller: Caller, requested: dict[str, Any]) -> None:
    created = await check(caller, "POST", "/projects", as_bytes({"project": requested}), {201})
    if created is not None:
        event("created")
        shown = await caller.get_project(created["project"]["id"])
        assert shown["name"] == (requested.get("name") or shown["id"])
        assert shown["settings"] == created["project"]["settings"]


@BOUNDED
@given(requested=almost_good())
async def test_almost_good_changes(caller: Caller, requested: dict[str, Any]) -> None:
    projects = (await caller.client.get("/projects")).json()["projects"]
    project_id = projects[0]["id"] if projects else await caller.create_ready_project()
    changed = await check(caller, "PATCH", f"/projects/{project_id}", as_bytes({"project": requested}), {200})
    if changed is not None:
        event("changed")
        assert (await caller.get_project(project_id))["updated_at"] == changed["project"]["updated_at"]
        await caller.finish_operations(project_id)  # of a changed history retention


@st.composite
def almost_good_endpoint(draw: st.DrawFn) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "pooler_enabled": st.booleans(),
        "pooler_mode": st.sampled_from(["transaction", "transaction", "session"]),
        "settings": st.fixed_dictionaries({}, optional={"pgbouncer_settings": pooler_settings}),
    }
    requested: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=fields))
    if draw(st.booleans()):
        requested[draw(st.sampled_from(sorted(fields)) | text)] = draw(anything)
    return requested


@BOUNDED
@given(requested=almost_good_endpoint())
async def test_almost_good_changes_of_an_endpoint(caller: Caller, requested: dict[str, Any]) -> None:
    projects = (await caller.client.get("/projects")).json()["projects"]
    project_id = projects[0]["id"] if projects else await caller.create_ready_project()
    path = f"/projects/{project_id}/endpoints"
    before = (await caller.client.get(path)).json()["endpoints"][0]
    changed = await check(caller, "PATCH", f"{path}/{before['id']}", as_bytes({"endpoint": requested}), {200})
    after = (await caller.client.get(path)).json()["endpoints"][0]
    if changed is not None:
        event("changed")
        assert after == changed["endpoint"]
    else:
        assert after == before


@BOUNDED
@given(raw=st.binary(max_size=200))
async def test_any_bytes_as_a_body(caller: Caller, raw: bytes) -> None:
    await check(caller, "POST", "/projects", raw, set())


@BOUNDED
@given(query=st.dictionaries(st.sampled_from(["cursor", "limit", "search", "org_id", "timeout", "recoverable"]), text))
async def test_any_query(caller: Caller, query: dict[str, str]) -> None:
    response = await caller.client.get("/projects", params=query)
    assert response.status_code in (200, 400, 404), response.text
