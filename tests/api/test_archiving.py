"""Archived branches: requests that need their data unarchive them first, others leave them archived."""

from dataclasses import replace
from typing import Any

import pytest

from api.project_client import READ_ONLY, READ_WRITE, ProjectClient, create_project_client, operation_actions
from bough.domain.branch import BranchState
from bough.ids import BranchId
from support.api_client import Caller, Json

UNARCHIVE = "timeline_unarchive"


async def archive(tree: ProjectClient, *branches: str) -> None:
    async with tree.caller.api_app.services.store.transaction() as rows:
        for branch_id in branches:
            await rows.branches.save(replace(await tree.get_branch_row(branch_id), state=BranchState.ARCHIVED))


async def line(tree: ProjectClient) -> tuple[str, str, Json]:
    """Creates an archived grandparent, parent and child, and returns the response for the child."""
    elder = (await tree.create_branch("elder"))["branch"]["id"]
    parent = (await tree.create_branch("parent", parent_id=elder))["branch"]["id"]
    child = await tree.create_branch("child", parent_id=parent, endpoints=(READ_WRITE,))
    await archive(tree, elder, parent, child["branch"]["id"])
    return elder, parent, child


def of(response: Json) -> list[tuple[str, str]]:
    return [(each["action"], each["branch_id"]) for each in response["operations"]]


async def test_it_is_shown_as_it_is(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch = (await tree.create_branch("dev"))["branch"]["id"]
    await archive(tree, branch)
    shown = await tree.get_branch(branch)
    assert (shown["current_state"], "pending_state" in shown) == ("archived", False)
    listed = (await tree.request("GET", tree.branches_path))["branches"]
    assert {each["name"]: each["current_state"] for each in listed}["dev"] == "archived"


ROLE = {"role": {"name": "app"}}
DATABASE = {"database": {"name": "app", "owner_name": "neondb_owner"}}
USES: list[tuple[str, str, Any, str]] = [
    ("POST", "{endpoint}/start", None, "start_compute"),
    ("POST", "{endpoint}/restart", None, "suspend_compute start_compute"),
    ("POST", "{branch}/roles", ROLE, "apply_config"),
    ("POST", "{branch}/databases", DATABASE, "apply_config"),
    ("POST", "{branch}/roles/neondb_owner/reset_password", None, "apply_config"),
    ("DELETE", "{branch}/databases/neondb", None, "apply_config"),
    ("POST", "{branch}/set_as_default", None, ""),
    ("PATCH", "{branch}", {"branch": {"protected": True}}, ""),
]


@pytest.mark.parametrize(("method", "path", "body", "work"), USES, ids=str)
async def test_use_brings_it_and_its_ancestors_back_first(
    caller: Caller, method: str, path: str, body: Any, work: str
) -> None:
    tree = await create_project_client(caller)
    elder, parent, child = await line(tree)
    branch = child["branch"]["id"]
    where = path.format(
        branch=tree.branch_path(branch), endpoint=f"{tree.path}/endpoints/{child['endpoints'][0]['id']}"
    )
    response = (await tree.send(method, where, body)).json()
    assert of(response) == [
        (UNARCHIVE, elder),
        (UNARCHIVE, parent),
        (UNARCHIVE, branch),
        *((action, branch) for action in work.split()),
    ]
    async with caller.api_app.services.store.read() as rows:
        found = [await rows.operations.get(each["id"]) for each in response["operations"]]
    assert [each.after for each in found if each] == [None, *(each.id for each in found[:-1] if each)]


async def test_an_endpoint_of_it_is_a_use(caller: Caller) -> None:
    tree = await create_project_client(caller)
    elder, parent, child = await line(tree)
    body = {"endpoint": {"branch_id": child["branch"]["id"], **READ_ONLY}}
    response = await tree.request("POST", f"{tree.path}/endpoints", body, status=201)
    expected = [elder, parent, child["branch"]["id"]]
    assert of(response) == [*((UNARCHIVE, each) for each in expected), ("start_compute", expected[-1])]


async def test_a_child_of_it_is_a_use(caller: Caller) -> None:
    tree = await create_project_client(caller)
    elder, parent, child = await line(tree)
    created = await tree.begin_branch("grandchild", parent_id=child["branch"]["id"])
    expected = [elder, parent, child["branch"]["id"]]
    assert of(created) == [*((UNARCHIVE, each) for each in expected), ("create_branch", created["branch"]["id"])]


async def test_only_those_come_back_that_are_archived(caller: Caller) -> None:
    tree = await create_project_client(caller)
    elder, parent, child = await line(tree)
    async with caller.api_app.services.store.transaction() as rows:
        for branch_id in (parent, child["branch"]["id"]):
            await rows.branches.save(replace(await tree.get_branch_row(branch_id), state=BranchState.READY))
    response = await tree.request("POST", f"{tree.branch_path(child['branch']['id'])}/roles", ROLE, status=201)
    assert of(response) == [(UNARCHIVE, elder), ("apply_config", child["branch"]["id"])]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "{branch}", {"branch": {"name": "other"}}),
        ("PATCH", "{branch}", {"branch": {"protected": False}}),
        ("PATCH", "{endpoint}", {"endpoint": {"suspend_timeout_seconds": 120}}),
        ("DELETE", "{branch}", None),
        ("GET", "{branch}/roles", None),
    ],
    ids=str,
)
async def test_what_needs_no_data_leaves_it_where_it_is(caller: Caller, method: str, path: str, body: Any) -> None:
    tree = await create_project_client(caller)
    _, _, child = await line(tree)
    where = path.format(
        branch=tree.branch_path(child["branch"]["id"]), endpoint=f"{tree.path}/endpoints/{child['endpoints'][0]['id']}"
    )
    response = await tree.request(method, where, body)
    assert UNARCHIVE not in operation_actions({"operations": [], **response})
    assert (await tree.get_branch_row(child["branch"]["id"])).state is BranchState.ARCHIVED


async def test_a_branch_can_be_archived_from_birth(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.begin_branch("dev", archived=True)
    assert operation_actions(created) == ["create_branch", "timeline_archive"]
    await tree.finish_operations()
    for fields, endpoints, status, sentence in (
        ({"archived": True}, [READ_WRITE], 400, "cannot have a running compute"),
        ({"archived": True, "protected": True}, [], 422, "cannot be archived"),
    ):
        body = {"branch": fields, "endpoints": endpoints}
        assert sentence in await tree.expect_error(status, "POST", tree.branches_path, body)


async def test_one_that_is_recovered_beside_archived_ancestors_brings_them_back(caller: Caller) -> None:
    tree = await create_project_client(caller)
    parent = (await tree.create_branch("parent"))["branch"]["id"]
    child = (await tree.create_branch("child", parent_id=parent))["branch"]["id"]
    await tree.request_and_finish("DELETE", tree.branch_path(child))
    await archive(tree, parent)
    await tree.request("POST", f"{tree.branch_path(child)}/recover")
    work = (await tree.request("GET", f"{tree.path}/operations"))["operations"]
    assert (work[0]["action"], work[0]["branch_id"]) == (UNARCHIVE, BranchId(parent))
