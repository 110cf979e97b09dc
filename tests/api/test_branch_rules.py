"""What is not allowed with a branch: each rule has an error message that says what to do."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from api.project_client import READ_ONLY, READ_WRITE, ProjectClient, create_project_client
from bough import clock
from bough.ids import BranchId
from support.api_client import Caller, Json

DAY = timedelta(days=1)


def _in(span: timedelta, zone: timezone = UTC) -> str:
    return (clock.now() + span).astimezone(zone).isoformat()


async def _refused(tree: ProjectClient, status: int, endpoints: list[Json] | None = None, **fields: Any) -> str:
    """Returns the error message for a branch with these fields."""
    body: Json = {"branch": fields, **({} if endpoints is None else {"endpoints": endpoints})}
    return await tree.expect_error(status, "POST", tree.branches_path, body)


async def _patch_refused(tree: ProjectClient, status: int, branch_id: str, **fields: Any) -> str:
    return await tree.expect_error(status, "PATCH", tree.branch_path(branch_id), {"branch": fields})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"init_source": "nothing"}, "init_source is 'nothing': use 'parent-data' or 'schema-only'."),
        ({"init_source": ""}, "use 'parent-data' or 'schema-only'"),
        ({"init_source": "x" * 65}, "branch.init_source"),
        ({"parent_id": ""}, "branch.parent_id"),
        ({"parent_id": "Not An Id"}, "branch.parent_id"),
        ({"parent_id": 7}, "branch.parent_id"),
        ({"name": ""}, "branch.name"),
        ({"name": "x" * 257}, "branch.name"),
        ({"name": "a\0b"}, "NUL"),
        ({"protected": "yes"}, "branch.protected"),
        ({"expires_at": "2026-01-01T00:00:00"}, "branch.expires_at"),
        ({"expires_at": "soon"}, "branch.expires_at"),
        ({"expires_at": 4_000_000_000}, "branch.expires_at"),
        ({"expires_at": "4000000000"}, "branch.expires_at"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "is in the past; use a time within the next 30 days"),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "is in the past"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, "is more than 30 days away"),
    ],
)
async def test_a_bad_wish_is_refused_with_a_reason(caller: Caller, fields: Json, sentence: str) -> None:
    assert sentence in await _refused(await create_project_client(caller), 400, **fields)


@pytest.mark.parametrize(
    ("endpoints", "sentence"),
    [
        (
            [READ_WRITE, READ_ONLY, READ_WRITE],
            "at most one read_write endpoint. Request one, and any others as read_only",
        ),
        ([{}], "endpoints.0.type"),
        ([{"type": "write_only"}], "endpoints.0.type"),
        ([{**READ_WRITE, "autoscaling_limit_max_cu": 1024}], "exceeds the 64 CU that the plan allows"),
        ([{**READ_WRITE, "suspend_timeout_seconds": 59}], "use 0 for the default, -1 for never"),
        ([READ_WRITE, {**READ_ONLY, "settings": {"pg_settings": {"fsync": "off"}}}], "fsync"),
        ([READ_ONLY] * 101, "endpoints"),
        (7, "endpoints"),
    ],
)
async def test_a_bad_endpoint_is_refused_with_its_branch(caller: Caller, endpoints: Any, sentence: str) -> None:
    assert sentence in await _refused(await create_project_client(caller), 400, endpoints)


@pytest.mark.parametrize("value", [{"a": 1}, {"a": None}, [], "text", {"a": {"b": "c"}}, {"\0": "a"}, {"a": "\0"}])
async def test_annotations_are_text(caller: Caller, value: Any) -> None:
    tree = await create_project_client(caller)
    await tree.expect_error(400, "POST", tree.branches_path, {"annotation_value": value})


async def test_the_parent_is_a_branch_of_the_project(caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    for parent_id in (BranchId.new(), other.main_branch_id):
        assert "branch could not be found" in await _refused(tree, 404, parent_id=parent_id)


async def test_a_name_belongs_to_one_living_branch_of_a_project(caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    assert "already has a branch named 'main'. Choose another name." in await _refused(tree, 409, name="main")
    dev = (await tree.create_branch("dev"))["branch"]["id"]
    await other.create_branch("dev")
    assert "already has a branch named 'dev'" in await _refused(tree, 409, name="dev")
    assert "already has a branch named 'dev'" in await _patch_refused(tree, 409, tree.main_branch_id, name="dev")
    await tree.request("PATCH", tree.branch_path(dev), {"branch": {"name": "dev"}})
    await tree.request_and_finish("DELETE", tree.branch_path(dev))
    await tree.create_branch("dev")
    await tree.request("PATCH", tree.branch_path(tree.main_branch_id), {"branch": {"name": "trunk"}})
    await tree.create_branch("main")


async def test_of_two_that_want_a_name_at_once_one_gets_it(caller: Caller) -> None:
    tree = await create_project_client(caller)
    body = {"branch": {"name": "dev"}}
    answers = await asyncio.gather(*(tree.send("POST", tree.branches_path, body) for _ in range(4)))
    assert sorted(response.status_code for response in answers) == [201, 409, 409, 409]


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
async def test_a_branch_may_expire_within_thirty_days(caller: Caller, zone: timezone) -> None:
    tree = await create_project_client(caller)
    for span in (timedelta(minutes=1), 30 * DAY - timedelta(minutes=1)):
        at = _in(span, zone)
        created = (await tree.create_branch(expires_at=at))["branch"]
        assert datetime.fromisoformat(created["expires_at"]) == datetime.fromisoformat(at)
        assert 0 <= span.total_seconds() - created["ttl_interval_seconds"] < 30
        assert await tree.get_branch(created["id"]) == created
    assert "more than 30 days away" in await _refused(tree, 400, expires_at=_in(30 * DAY + timedelta(minutes=1), zone))


async def test_an_expiration_is_set_kept_moved_and_cleared(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch("dev"))["branch"]["id"]
    for days in (1, 2):
        at = _in(days * DAY)
        after = (await tree.request("PATCH", tree.branch_path(branch_id), {"branch": {"expires_at": at}}))["branch"]
        assert datetime.fromisoformat(after["expires_at"]) == datetime.fromisoformat(at)
        assert 0 <= days * DAY.total_seconds() - after["ttl_interval_seconds"] < 30
    for fields in ({}, {"name": "other"}, {"protected": False}):
        kept = (await tree.request("PATCH", tree.branch_path(branch_id), {"branch": fields}))["branch"]
        assert (kept["expires_at"], kept["ttl_interval_seconds"]) == (
            after["expires_at"],
            after["ttl_interval_seconds"],
        )
    cleared = (await tree.request("PATCH", tree.branch_path(branch_id), {"branch": {"expires_at": None}}))["branch"]
    assert {"expires_at", "ttl_interval_seconds"}.isdisjoint(cleared)
    assert await tree.get_branch(branch_id) == cleared


async def test_what_must_stay_cannot_expire(caller: Caller) -> None:
    tree = await create_project_client(caller)
    soon: Json = {"expires_at": _in(DAY)}
    assert "it is protected. Unprotect it first" in await _refused(tree, 422, protected=True, **soon)
    assert "it is the default branch" in await _patch_refused(tree, 422, tree.main_branch_id, **soon)
    parent = (await tree.create_branch("parent"))["branch"]["id"]
    child = (await tree.create_branch("child", parent_id=parent))["branch"]["id"]
    assert "it has child branches. Delete those first" in await _patch_refused(tree, 422, parent, **soon)
    await tree.request("POST", f"{tree.branch_path(child)}/set_as_default")
    assert "it is the project's root branch" in await _patch_refused(tree, 422, tree.main_branch_id, **soon)
    assert "it is the default branch" in await _patch_refused(tree, 422, child, **soon)


async def test_one_that_expires_has_no_children_no_protection_and_is_no_default(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch("dev", expires_at=_in(DAY)))["branch"]["id"]
    assert "no branch can be created from it. Clear its expires_at first" in await _refused(
        tree, 422, parent_id=branch_id
    )
    assert "cannot have expires_at: it is protected" in await _patch_refused(tree, 422, branch_id, protected=True)
    for verb in ("set_as_default", "set_as_primary"):
        sentence = await tree.expect_error(422, "POST", f"{tree.branch_path(branch_id)}/{verb}")
        assert "expires. Clear its expires_at, then make it the default" in sentence
    await tree.request("PATCH", tree.branch_path(branch_id), {"branch": {"protected": True, "expires_at": None}})
    await tree.create_branch(parent_id=branch_id)
    await tree.request("POST", f"{tree.branch_path(branch_id)}/set_as_default")


async def test_one_whose_time_is_over_can_still_be_renamed_and_kept(caller: Caller) -> None:
    """The task that deletes it runs a moment later."""
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch("dev", expires_at=_in(DAY)))["branch"]["id"]
    row = await tree.get_branch_row(branch_id)
    async with caller.api_app.services.store.transaction() as rows:
        await rows.branches.save(replace(row, expires_at=clock.now() - DAY))
    await tree.request("PATCH", tree.branch_path(branch_id), {"branch": {"name": "late"}})
    assert (
        "expires_at"
        not in (await tree.request("PATCH", tree.branch_path(branch_id), {"branch": {"expires_at": None}}))["branch"]
    )


@pytest.mark.parametrize("body", [{"branch": {}}, {"branch": {"name": None, "protected": None}}, {"branch": {"x": 1}}])
async def test_who_says_nothing_changes_nothing_but_the_moment(caller: Caller, body: Json) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch("dev", protected=True))["branch"]["id"]
    before = await tree.get_branch(branch_id)
    after = await tree.request("PATCH", tree.branch_path(branch_id), body)
    assert after["operations"] == []
    assert {**after["branch"], "updated_at": None} == {**before, "updated_at": None}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (None, "not valid"),
        ({}, "branch"),
        ({"branch": None}, "branch"),
        ({"branch": {"name": ""}}, "branch.name"),
        ({"branch": {"name": "x" * 257}}, "branch.name"),
        ({"branch": {"protected": 1}}, "branch.protected"),
        ({"branch": {"expires_at": "2026-01-01T00:00:00"}}, "branch.expires_at"),
        ({"branch": {"expires_at": "2020-01-01T00:00:00Z"}}, "in the past"),
        ({"branch": {"expires_at": "9999-01-01T00:00:00Z"}}, "more than 30 days away"),
    ],
)
async def test_a_bad_change_is_refused_whole(caller: Caller, body: Any, sentence: str) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch("dev"))["branch"]["id"]
    if body and body.get("branch"):
        body = {"branch": {"protected": True, "name": "new", **body["branch"]}}
    assert sentence in await tree.expect_error(400, "PATCH", tree.branch_path(branch_id), body)


async def test_roots_defaults_parents_and_protected_ones_stay(caller: Caller) -> None:
    tree = await create_project_client(caller)
    assert "it is the default branch. Make another" in await tree.expect_error(
        422, "DELETE", tree.branch_path(tree.main_branch_id)
    )
    parent = (await tree.create_branch("parent"))["branch"]["id"]
    child = (await tree.create_branch("child", parent_id=parent))["branch"]["id"]
    assert "it has child branches. Delete those first" in await tree.expect_error(
        422, "DELETE", tree.branch_path(parent)
    )
    await tree.request("PATCH", tree.branch_path(child), {"branch": {"protected": True}})
    assert "it is protected. Unprotect it first" in await tree.expect_error(422, "DELETE", tree.branch_path(child))
    assert "protected branch" in await tree.expect_error(422, "DELETE", tree.path)
    await tree.request("PATCH", tree.branch_path(child), {"branch": {"protected": False}})
    await tree.request("POST", f"{tree.branch_path(child)}/set_as_default")
    assert "it is the default branch" in await tree.expect_error(422, "DELETE", tree.branch_path(child))
    assert "it is the project's root branch. Delete the project" in await tree.expect_error(
        422, "DELETE", tree.branch_path(tree.main_branch_id)
    )
    await tree.request("POST", f"{tree.branch_path(tree.main_branch_id)}/set_as_default")
    await tree.request_and_finish("DELETE", tree.branch_path(child))
    await tree.request_and_finish("DELETE", tree.branch_path(parent))
    assert await tree.list_branch_names() == ["main"]
