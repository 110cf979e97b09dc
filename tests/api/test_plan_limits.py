"""The number of branches, endpoints, roles and databases that a plan allows."""

from dataclasses import replace
from typing import Any

import pytest

from api.project_client import READ_ONLY, READ_WRITE, ProjectClient, create_project_client
from bough.config import DEFAULT_PLANS, Plan
from support.api_app import ApiApp
from support.api_client import Caller, Json


def _plans(**limits: int) -> dict[str, Any]:
    return {"plans": {**{name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}, "free": Plan(**limits)}}


async def _limited(app: ApiApp, stranger: Caller, **limits: int) -> ProjectClient:
    """Creates a project of a user with these plan limits."""
    small = ApiApp(app.platform, **_plans(**limits))
    return await create_project_client(replace(stranger, api_app=small, client=small.client(stranger.token)))


async def _limit_met(tree: ProjectClient, code: str, path: str, body: Json) -> str:
    before = await tree.read_state()
    response = await tree.request("POST", path, body, status=422)
    assert response["code"] == code
    assert await tree.read_state() == before
    return str(response["message"])


async def test_the_plan_limits_branches(api_app: ApiApp, stranger: Caller) -> None:
    tree = await _limited(api_app, stranger, branches=2)
    deleted = (await tree.create_branch())["branch"]["id"]
    sentence = await _limit_met(tree, "BRANCHES_LIMIT_EXCEEDED", tree.branches_path, {})
    assert "has 2 branches, the limit of its plan. Delete one, or change the plan." in sentence
    await tree.request("DELETE", tree.branch_path(deleted))
    await tree.create_branch()


async def test_what_a_restore_preserves_counts_as_a_branch(api_app: ApiApp, stranger: Caller) -> None:
    tree = await _limited(api_app, stranger, branches=2)
    dev = (await tree.create_branch("dev"))["branch"]["id"]
    requested = {"source_branch_id": tree.main_branch_id}
    kept = {**requested, "preserve_under_name": "before"}
    await _limit_met(tree, "BRANCHES_LIMIT_EXCEEDED", f"{tree.branch_path(dev)}/restore", kept)
    await tree.request_and_finish("POST", f"{tree.branch_path(dev)}/restore", requested)


async def test_the_plan_limits_endpoints(api_app: ApiApp, stranger: Caller) -> None:
    tree = await _limited(api_app, stranger, endpoints=3)
    code = "ENDPOINTS_LIMIT_EXCEEDED"
    await _limit_met(tree, code, tree.branches_path, {"endpoints": [READ_WRITE, READ_ONLY, READ_ONLY]})
    created = await tree.create_branch(endpoints=(READ_WRITE, READ_ONLY))
    requested = {"endpoint": {"branch_id": tree.main_branch_id, **READ_ONLY}}
    assert "3 endpoints" in await _limit_met(tree, code, f"{tree.path}/endpoints", requested)
    await _limit_met(tree, code, tree.branches_path, {"endpoints": [READ_WRITE]})
    await tree.create_branch()
    await tree.request_and_finish("DELETE", f"{tree.path}/endpoints/{created['endpoints'][1]['id']}")
    await tree.request_and_finish("POST", f"{tree.path}/endpoints", requested, status=201)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("roles", {"role": {"name": "one too many"}}),
        ("databases", {"database": {"name": "one too many", "owner_name": "neondb_owner"}}),
    ],
)
async def test_the_plan_limits_roles_and_databases_of_each_branch(
    api_app: ApiApp, stranger: Caller, kind: str, body: Json
) -> None:
    tree = await _limited(api_app, stranger, roles=2, databases=2)
    (noun,) = body
    await tree.request_and_finish(
        "POST", f"{tree.branch_path(tree.main_branch_id)}/{kind}", {noun: {**body[noun], "name": "first"}}, status=201
    )
    sentence = await _limit_met(
        tree, f"{kind.upper()}_LIMIT_EXCEEDED", f"{tree.branch_path(tree.main_branch_id)}/{kind}", body
    )
    assert f"The branch has 2 {kind}, the limit of its plan" in sentence
    other = await tree.create_branch()
    assert len(other[kind]) == 2
