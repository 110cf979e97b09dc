"""Databases of a branch: create, rename, change the owner and delete, with unusual names."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from api.project_client import ProjectClient, create_project_client, operation_actions
from api.test_roles import ODD_NAMES
from bough.domain.api_key import KeyKind
from bough.ids import BranchId
from support.api_app import ApiApp
from support.api_client import Caller, Json

BAD_NAMES = [
    ("", "needs a name of at least one character"),
    ("x" * 64, "is longer than 63 bytes"),
    ("é" * 32, "is longer than 63 bytes"),
    ("a\0b", "NUL"),
    ("a\tb", "control character"),
    ("\u2028", "control character"),
    ("postgres", "is reserved; choose another"),
    ("Template0", "is reserved"),
    ("template1", "is reserved"),
    ("replication", "is reserved"),
    ("all", "is reserved"),
    ("sameuser", "is reserved"),
    ("pg_x", "is reserved"),
    ("BOUGH_x", "is reserved"),
]


def databases_of(tree: ProjectClient, branch_id: str | None = None) -> str:
    return f"{tree.branch_path(branch_id or tree.main_branch_id)}/databases"


def _asked(name: str, owner: str = "neondb_owner") -> Json:
    return {"database": {"name": name, "owner_name": owner}}


async def _created(tree: ProjectClient, name: str = "shop", owner: str = "neondb_owner") -> Json:
    return await tree.request_and_finish("POST", databases_of(tree), _asked(name, owner), status=201)


async def _has_role(tree: ProjectClient, name: str = "app") -> None:
    await tree.request_and_finish(
        "POST", f"{tree.branch_path(tree.main_branch_id)}/roles", {"role": {"name": name}}, status=201
    )


async def test_one_is_created_and_shown(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await _created(tree)
    database = created["database"]
    assert (database["name"], database["owner_name"], database["branch_id"]) == (
        "shop",
        "neondb_owner",
        tree.main_branch_id,
    )
    (work,) = created["operations"]
    assert (work["action"], work["status"]) == ("apply_config", "running")
    assert (work["branch_id"], work["endpoint_id"]) == (tree.main_branch_id, tree.endpoint_id)
    assert (await tree.request("GET", tree.database_path("shop")))["database"] == database
    listed = (await tree.request("GET", databases_of(tree)))["databases"]
    assert [each["name"] for each in listed] == ["neondb", "shop"]
    assert listed[1] == database
    assert listed[0]["id"] != database["id"]


async def test_without_an_endpoint_the_work_names_the_branch_alone(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch())["branch"]["id"]
    created = await tree.request_and_finish("POST", databases_of(tree, branch_id), _asked("shop"), status=201)
    assert (created["operations"][0]["branch_id"], "endpoint_id" in created["operations"][0]) == (branch_id, False)
    await tree.request("GET", tree.database_path("shop"), status=404)
    await tree.request("GET", tree.database_path("shop", branch_id))


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_name_that_postgres_takes_works_on_every_route(caller: Caller, name: str) -> None:
    tree = await create_project_client(caller)
    created = await _created(tree, name)
    assert created["database"]["name"] == name
    assert (await tree.request("GET", tree.database_path(name)))["database"] == created["database"]
    await tree.request_and_finish("PATCH", tree.database_path(name), {"database": {"name": "plain"}})
    await tree.request("GET", tree.database_path(name), status=404)
    back = await tree.request_and_finish("PATCH", tree.database_path("plain"), {"database": {"name": name}})
    assert (back["database"]["name"], back["database"]["id"]) == (name, created["database"]["id"])
    assert name in [each["name"] for each in (await tree.create_branch())["databases"]]
    deleted = await tree.request_and_finish("DELETE", tree.database_path(name))
    assert (deleted["database"]["name"], operation_actions(deleted)) == (name, ["apply_config"])


@pytest.mark.parametrize(("name", "sentence"), BAD_NAMES)
async def test_a_name_that_is_taken_by_postgres_or_too_long_is_refused(
    caller: Caller, name: str, sentence: str
) -> None:
    tree = await create_project_client(caller)
    assert sentence in await tree.expect_error(400, "POST", databases_of(tree), _asked(name))
    assert sentence in await tree.expect_error(400, "PATCH", tree.database_path("neondb"), {"database": {"name": name}})


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"database": {}},
        {"database": {"name": "shop"}},
        {"database": {"owner_name": "neondb_owner"}},
        {"database": {"name": 7, "owner_name": "neondb_owner"}},
        {"database": {"name": "shop", "owner_name": None}},
    ],
)
async def test_a_bad_body_is_refused(caller: Caller, body: Any) -> None:
    tree = await create_project_client(caller)
    assert await tree.expect_error(400, "POST", databases_of(tree), body)


@pytest.mark.parametrize("owner", ["nobody", "", "NEONDB_OWNER", "postgres", "pg_monitor"])
async def test_the_owner_is_a_role_of_the_branch(caller: Caller, owner: str) -> None:
    tree = await create_project_client(caller)
    sentence = f"The branch has no role {owner!r} to own the database. Create the role first."
    assert sentence == await tree.expect_error(400, "POST", databases_of(tree), _asked("shop", owner))
    changed = {"database": {"owner_name": owner}}
    assert sentence == await tree.expect_error(400, "PATCH", tree.database_path("neondb"), changed)


async def test_a_role_of_another_branch_is_no_owner(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch())["branch"]["id"]
    await _has_role(tree)
    await tree.request("POST", databases_of(tree, branch_id), _asked("shop", "app"), status=400)


async def test_a_name_is_given_once_on_a_branch(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await _created(tree)
    sentence = "already has a database 'shop'. Choose another name."
    assert sentence in await tree.expect_error(409, "POST", databases_of(tree), _asked("shop"))
    renamed = {"database": {"name": "shop"}}
    assert sentence in await tree.expect_error(409, "PATCH", tree.database_path("neondb"), renamed)
    await _created(tree, "Shop")


async def test_of_two_that_want_a_name_at_once_one_gets_it(caller: Caller) -> None:
    tree = await create_project_client(caller)
    answers = await asyncio.gather(*(tree.send("POST", databases_of(tree), _asked("shop")) for _ in range(3)))
    assert sorted(response.status_code for response in answers) == [201, 423, 423]


async def test_a_name_and_an_owner_are_changed_together_or_alone(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await _has_role(tree)
    before = (await _created(tree))["database"]
    for change in ({"owner_name": "app"}, {"name": "store"}, {"name": "shop", "owner_name": "neondb_owner"}):
        changed = await tree.request_and_finish("PATCH", tree.database_path(before["name"]), {"database": change})
        after = changed["database"]
        assert after == {**before, **change, "updated_at": after["updated_at"]}
        assert after["updated_at"] > before["updated_at"]
        assert (operation_actions(changed), changed["operations"][0]["endpoint_id"]) == (
            ["apply_config"],
            tree.endpoint_id,
        )
        assert (await tree.request("GET", tree.database_path(after["name"])))["database"] == after
        before = after
    await tree.request("GET", tree.database_path("store"), status=404)


@pytest.mark.parametrize(
    "change",
    [{}, {"name": None, "owner_name": None}, {"name": "neondb"}, {"name": "neondb", "owner_name": "neondb_owner"}],
)
async def test_who_changes_nothing_makes_no_work(caller: Caller, change: Json) -> None:
    tree = await create_project_client(caller)
    before = (await tree.request("GET", tree.database_path("neondb")))["database"]
    assert await tree.request("PATCH", tree.database_path("neondb"), {"database": change}) == {
        "database": before,
        "operations": [],
    }


@pytest.mark.parametrize("body", [None, {}, {"database": None}, {"database": {"name": 7}}, {"database": []}])
async def test_a_bad_change_is_refused(caller: Caller, body: Any) -> None:
    tree = await create_project_client(caller)
    assert await tree.expect_error(400, "PATCH", tree.database_path("neondb"), body)


async def test_what_is_not_there(caller: Caller) -> None:
    tree = await create_project_client(caller)
    assert await tree.request("DELETE", tree.database_path("nothing"), status=204) == {}
    for method, body in (("GET", None), ("PATCH", {"database": {"name": "new"}})):
        assert "database could not be found" in await tree.expect_error(
            404, method, tree.database_path("nothing"), body
        )
    for method, body in (("GET", None), ("PATCH", {"database": {"name": "new"}}), ("DELETE", None)):
        assert "This path does not exist" in await tree.expect_error(404, method, tree.database_path(""), body)
    nowhere = str(BranchId.new())
    for method, path, body in (
        ("GET", databases_of(tree, nowhere), None),
        ("POST", databases_of(tree, nowhere), _asked("shop")),
        ("GET", tree.database_path("neondb", nowhere), None),
        ("PATCH", tree.database_path("neondb", nowhere), {"database": {"name": "new"}}),
        ("DELETE", tree.database_path("neondb", nowhere), None),
    ):
        assert "branch could not be found" in await tree.expect_error(404, method, path, body)


async def test_another_change_of_the_branch_waits_its_turn(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await tree.request("DELETE", tree.database_path("neondb"))
    for method, path, body in (
        ("POST", databases_of(tree), _asked("shop")),
        ("PATCH", tree.database_path("neondb"), {"database": {"name": "new"}}),
        ("DELETE", tree.role_path("neondb_owner"), None),
    ):
        response = await tree.send(method, path, body)
        assert response.status_code == 423, f"{method} {path}: {response.text}"
        assert int(response.headers["retry-after"]) >= 1


async def test_strangers_find_no_database_and_a_project_key_its_own(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    outside = replace(tree, caller=stranger)
    for method, path, body in (
        ("GET", databases_of(tree), None),
        ("POST", databases_of(tree), _asked("mine")),
        ("GET", tree.database_path("neondb"), None),
        ("PATCH", tree.database_path("neondb"), {"database": {"name": "mine"}}),
        ("DELETE", tree.database_path("neondb"), None),
    ):
        await outside.request(method, path, body, status=404)
    async with api_app.client(await caller.create_key(KeyKind.PROJECT, tree.id)) as client:
        assert (await client.post(databases_of(tree), json=_asked("mine"))).status_code == 201
        assert (await client.post(databases_of(other), json=_asked("mine"))).status_code == 404
        assert (await client.get(tree.database_path("neondb", other.main_branch_id))).status_code == 404
