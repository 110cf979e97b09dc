"""Random request bodies for branches, endpoints, roles and databases."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from api.project_client import ProjectClient, create_project_client
from api.test_branch_points import with_history
from api.test_fuzz_bodies import BOUNDED, anything, as_bytes, check, pooler_settings, text
from bough import clock
from support.api_client import Caller

pytestmark = pytest.mark.slow
REFUSED = (404, 409)  # besides 400 and 422
Fields = dict[str, Any]

good_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60)
identifiers = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=15)
days = st.integers(-1, 31)  # until a branch expires
on_a_new_branch: Fields = {
    "type": st.sampled_from(["read_only", "read_only", "read_only", "read_write"]),
    "autoscaling_limit_min_cu": st.floats(0.25, 1),
    "autoscaling_limit_max_cu": st.floats(1, 8),
    "suspend_timeout_seconds": st.sampled_from([-1, 0, 60, 60, 604_800]),
    "settings": st.fixed_dictionaries({}, optional={"pg_settings": st.just({"work_mem": "9MB"})}),
    "provisioner": identifiers,
}
branches: Fields = {
    "name": good_text,
    "protected": st.booleans(),
    "init_source": st.sampled_from(["parent-data", "schema-only"]),
    "expires_at": days,
}
restores: Fields = {
    "source_branch_id": st.sampled_from(["main", "dev", "br-none"]),
    "source_lsn": st.sampled_from(["0/100", "0/FF", "FFFFFFFF/FFFFFFFF", "0/g"]),
    "source_timestamp": st.datetimes(timezones=st.timezones()).map(datetime.isoformat),
    "preserve_under_name": good_text,
}
roles: Fields = {"name": identifiers, "no_login": st.booleans()}
databases: Fields = {"name": identifiers, "owner_name": st.just("neondb_owner")}
endpoints: Fields = {
    **on_a_new_branch,
    "settings": st.fixed_dictionaries({}, optional={"pgbouncer_settings": pooler_settings}),
    "disabled": st.booleans(),
    "passwordless_access": st.booleans(),
    "region_id": st.just("aws-us-east-2"),
    "name": identifiers,
}


@st.composite
def spoiled(draw: st.DrawFn, fields: Fields, *required: str) -> Fields:
    """Generates mostly valid fields, often with an invalid one."""
    needed = {name: fields[name] for name in required}
    others = {name: each for name, each in fields.items() if name not in required}
    requested: Fields = draw(st.fixed_dictionaries(needed, optional=others))
    if draw(st.booleans()):
        requested[draw(st.sampled_from(sorted(fields)) | text)] = draw(anything)
    return requested


def _dated(requested: Fields) -> Fields:
    """Converts the number of days to a timestamp."""
    if type(requested.get("expires_at")) is not int or not -1 <= requested["expires_at"] <= 31:
        return requested
    return {**requested, "expires_at": (clock.now() + timedelta(days=requested["expires_at"])).isoformat()}


async def _tree(caller: Caller) -> ProjectClient:
    """The caller's project, without open operations."""
    projects = (await caller.client.get("/projects")).json()["projects"]
    if not projects:
        return await create_project_client(caller)
    path = f"/projects/{projects[0]['id']}"
    *_, branch = (await caller.client.get(f"{path}/branches", params={"sort_by": "created_at"})).json()["branches"]
    found = (await caller.client.get(f"{path}/endpoints")).json()["endpoints"]
    return ProjectClient(caller, {"project": projects[0], "branch": branch, "endpoints": found})


@BOUNDED
@given(body=anything)
async def test_any_json_as_a_body(caller: Caller, body: Any) -> None:
    tree = await _tree(caller)
    for method, path in (
        ("POST", tree.branches_path),
        ("PATCH", tree.branch_path(tree.main_branch_id)),
        ("POST", f"{tree.path}/endpoints"),
        ("PATCH", f"{tree.path}/endpoints/{tree.endpoint_id}"),
        ("POST", f"{tree.branch_path(tree.main_branch_id)}/restore"),
        ("POST", f"{tree.branch_path(tree.main_branch_id)}/roles"),
        ("POST", f"{tree.branch_path(tree.main_branch_id)}/databases"),
        ("PATCH", tree.database_path("neondb")),
    ):
        await check(caller, method, path, as_bytes(body), {200, 201}, *REFUSED)
        await tree.finish_operations()


@BOUNDED
@given(
    requested=spoiled(branches),
    wanted=st.lists(spoiled(on_a_new_branch, "type"), max_size=2),
    notes=st.dictionaries(good_text, good_text, max_size=2),
)
async def test_almost_good_branches(caller: Caller, requested: Fields, wanted: list[Fields], notes: Fields) -> None:
    tree = await _tree(caller)
    body = as_bytes({"branch": _dated(requested), "endpoints": wanted, "annotation_value": notes})
    created = await check(caller, "POST", tree.branches_path, body, {201}, *REFUSED)
    await tree.finish_operations()
    if created is not None:
        event("created")
        shown = await tree.request("GET", tree.branch_path(created["branch"]["id"]))
        assert shown["branch"] == created["branch"]
        assert shown["branch"]["name"] == (requested.get("name") or created["branch"]["id"])
        assert shown["annotation"]["value"] == notes


@BOUNDED
@given(requested=spoiled(restores, "source_branch_id"), which=st.sampled_from(["main", "dev"]))
async def test_almost_good_restores(caller: Caller, requested: Fields, which: str) -> None:
    tree = await _tree(caller)
    await with_history(tree)
    found = {each["name"]: each["id"] for each in (await tree.request("GET", tree.branches_path))["branches"]}
    if "dev" not in found:
        found["dev"] = (await tree.create_branch("dev"))["branch"]["id"]
    source = requested["source_branch_id"]
    if isinstance(source, str):
        requested = {**requested, "source_branch_id": found.get(source, source)}
    done = await check(
        caller, "POST", f"{tree.branch_path(found[which])}/restore", as_bytes(requested), {200}, *REFUSED
    )
    await tree.finish_operations()
    if done is not None:
        event("restored")
        assert done["branch"]["id"] == found[which]


@BOUNDED
@given(requested=spoiled({name: branches[name] for name in ("name", "protected", "expires_at")}))
async def test_almost_good_changes_of_a_branch(caller: Caller, requested: Fields) -> None:
    tree = await _tree(caller)
    found = (await tree.request("GET", tree.branches_path, sort_by="created_at"))["branches"]
    before = found[0] if len(found) > 1 else (await tree.create_branch())["branch"]
    path = tree.branch_path(before["id"])
    changed = await check(caller, "PATCH", path, as_bytes({"branch": _dated(requested)}), {200}, *REFUSED)
    if changed is not None:
        event("changed")
    assert await tree.get_branch(before["id"]) == (changed["branch"] if changed else before)


@BOUNDED
@given(role=spoiled(roles, "name"), database=spoiled(databases, "name", "owner_name"))
async def test_almost_good_roles_and_databases(caller: Caller, role: Fields, database: Fields) -> None:
    tree = await _tree(caller)
    for noun, requested, one in (("role", role, tree.role_path), ("database", database, tree.database_path)):
        path = f"{tree.branch_path(tree.main_branch_id)}/{noun}s"
        created = await check(caller, "POST", path, as_bytes({noun: requested}), {201}, *REFUSED)
        await tree.finish_operations()
        if created is not None:
            event(f"{noun} created")
            created[noun].pop("password", None)
            assert (await tree.request("GET", one(requested["name"])))[noun] == created[noun]


@BOUNDED
@given(change=spoiled(databases))
async def test_almost_good_changes_of_a_database(caller: Caller, change: Fields) -> None:
    tree = await _tree(caller)
    path = f"{tree.branch_path(tree.main_branch_id)}/databases"
    (before,) = (await tree.request("GET", path))["databases"]
    body = as_bytes({"database": change})
    changed = await check(caller, "PATCH", tree.database_path(before["name"]), body, {200}, *REFUSED)
    await tree.finish_operations()
    if changed is not None and changed["operations"]:
        event("changed")
    (after,) = (await tree.request("GET", path))["databases"]
    assert after == (changed["database"] if changed else before)


@BOUNDED
@given(requested=spoiled(endpoints, "type"))
async def test_almost_good_endpoints(caller: Caller, requested: Fields) -> None:
    tree = await _tree(caller)
    body = as_bytes({"endpoint": {"branch_id": tree.main_branch_id, **requested}})
    created = await check(caller, "POST", f"{tree.path}/endpoints", body, {201}, *REFUSED)
    await tree.finish_operations()
    if created is not None:
        event("created")
        shown = await tree.request("GET", f"{tree.path}/endpoints/{created['endpoint']['id']}")
        assert shown["endpoint"] == created["endpoint"]


@BOUNDED
@given(
    query=st.dictionaries(
        st.sampled_from(["cursor", "limit", "search", "sort_by", "sort_order", "include_deleted"]),
        text | st.sampled_from(["1", "name", "asc", "true"]),
    )
)
async def test_any_query(caller: Caller, query: dict[str, str]) -> None:
    tree = await _tree(caller)
    for path in (tree.branches_path, f"{tree.branches_path}/count"):
        response = await tree.send("GET", path, **query)
        assert response.status_code in (200, 400), response.text


@BOUNDED
@given(name=text.filter(bool) | identifiers)
async def test_any_name_in_a_path(caller: Caller, name: str) -> None:
    tree = await _tree(caller)
    for one in (tree.role_path(name), tree.database_path(name)):
        assert (await tree.send("GET", one)).status_code in (400, 404, 405)
        response = await tree.send("DELETE", one)
        assert response.status_code in (204, 400, 405), response.text
    assert (await tree.send("POST", f"{tree.role_path(name)}/reset_password")).status_code in (400, 404)
    change = {"database": {"name": "other"}}
    assert (await tree.send("PATCH", tree.database_path(name), change)).status_code in (400, 404)
