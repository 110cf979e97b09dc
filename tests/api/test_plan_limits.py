"""How many branches, endpoints, roles and databases a plan allows."""

from dataclasses import replace
from typing import Any

import pytest

from api.callers import Caller, Json
from api.front import Front
from api.trees import READ_ONLY, READ_WRITE, Tree, plant
from bough.config import DEFAULT_PLANS, Plan


def _plans(**limits: int) -> dict[str, Any]:
    return {"plans": {**{name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}, "free": Plan(**limits)}}


async def _limited(front: Front, stranger: Caller, **limits: int) -> Tree:
    """A project of someone whose plan allows so much."""
    small = Front(front.platform, **_plans(**limits))
    return await plant(replace(stranger, front=small, client=small.client(stranger.token)))


async def _limit_met(tree: Tree, code: str, path: str, body: Json) -> str:
    before = await tree.picture()
    answer = await tree.ask("POST", path, body, status=422)
    assert answer["code"] == code
    assert await tree.picture() == before
    return str(answer["message"])


async def test_the_plan_limits_branches(front: Front, stranger: Caller) -> None:
    tree = await _limited(front, stranger, branches=2)
    gone = (await tree.grows())["branch"]["id"]
    sentence = await _limit_met(tree, "BRANCHES_LIMIT_EXCEEDED", tree.branches, {})
    assert "has 2 branches, all that its plan allows. Delete one, or change the plan." in sentence
    await tree.ask("DELETE", tree.of(gone))
    await tree.grows()


async def test_what_a_restore_preserves_counts_as_a_branch(front: Front, stranger: Caller) -> None:
    tree = await _limited(front, stranger, branches=2)
    dev = (await tree.grows("dev"))["branch"]["id"]
    asked = {"source_branch_id": tree.main}
    kept = {**asked, "preserve_under_name": "before"}
    await _limit_met(tree, "BRANCHES_LIMIT_EXCEEDED", f"{tree.of(dev)}/restore", kept)
    await tree.does("POST", f"{tree.of(dev)}/restore", asked)


async def test_the_plan_limits_endpoints(front: Front, stranger: Caller) -> None:
    tree = await _limited(front, stranger, endpoints=3)
    code = "ENDPOINTS_LIMIT_EXCEEDED"
    await _limit_met(tree, code, tree.branches, {"endpoints": [READ_WRITE, READ_ONLY, READ_ONLY]})
    made = await tree.grows(endpoints=(READ_WRITE, READ_ONLY))
    asked = {"endpoint": {"branch_id": tree.main, **READ_ONLY}}
    assert "3 endpoints" in await _limit_met(tree, code, f"{tree.path}/endpoints", asked)
    await _limit_met(tree, code, tree.branches, {"endpoints": [READ_WRITE]})
    await tree.grows()
    await tree.does("DELETE", f"{tree.path}/endpoints/{made['endpoints'][1]['id']}")
    await tree.does("POST", f"{tree.path}/endpoints", asked, status=201)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("roles", {"role": {"name": "one too many"}}),
        ("databases", {"database": {"name": "one too many", "owner_name": "neondb_owner"}}),
    ],
)
async def test_the_plan_limits_roles_and_databases_of_each_branch(
    front: Front, stranger: Caller, kind: str, body: Json
) -> None:
    tree = await _limited(front, stranger, roles=2, databases=2)
    (noun,) = body
    await tree.does("POST", f"{tree.of(tree.main)}/{kind}", {noun: {**body[noun], "name": "first"}}, status=201)
    sentence = await _limit_met(tree, f"{kind.upper()}_LIMIT_EXCEEDED", f"{tree.of(tree.main)}/{kind}", body)
    assert f"The branch has 2 {kind}, all that its plan allows" in sentence
    other = await tree.grows()
    assert len(other[kind]) == 2
