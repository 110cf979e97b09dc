"""Databases of a branch: created, renamed, given away and deleted, whatever they are called."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from api.callers import Caller, Json
from api.front import Front
from api.test_roles import ODD_NAMES
from api.trees import Tree, actions, plant
from bough.domain.api_key import KeyKind
from bough.ids import BranchId

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


def databases_of(tree: Tree, branch_id: str | None = None) -> str:
    return f"{tree.of(branch_id or tree.main)}/databases"


def _asked(name: str, owner: str = "neondb_owner") -> Json:
    return {"database": {"name": name, "owner_name": owner}}


async def _created(tree: Tree, name: str = "shop", owner: str = "neondb_owner") -> Json:
    return await tree.does("POST", databases_of(tree), _asked(name, owner), status=201)


async def _has_role(tree: Tree, name: str = "app") -> None:
    await tree.does("POST", f"{tree.of(tree.main)}/roles", {"role": {"name": name}}, status=201)


async def test_one_is_created_and_shown(caller: Caller) -> None:
    tree = await plant(caller)
    made = await _created(tree)
    database = made["database"]
    assert (database["name"], database["owner_name"], database["branch_id"]) == ("shop", "neondb_owner", tree.main)
    (work,) = made["operations"]
    assert (work["action"], work["status"]) == ("apply_config", "running")
    assert (work["branch_id"], work["endpoint_id"]) == (tree.main, tree.endpoint)
    assert (await tree.ask("GET", tree.database("shop")))["database"] == database
    listed = (await tree.ask("GET", databases_of(tree)))["databases"]
    assert [each["name"] for each in listed] == ["neondb", "shop"]
    assert listed[1] == database
    assert listed[0]["id"] != database["id"]


async def test_without_an_endpoint_the_work_names_the_branch_alone(caller: Caller) -> None:
    tree = await plant(caller)
    branch_id = (await tree.grows())["branch"]["id"]
    made = await tree.does("POST", databases_of(tree, branch_id), _asked("shop"), status=201)
    assert (made["operations"][0]["branch_id"], "endpoint_id" in made["operations"][0]) == (branch_id, False)
    await tree.ask("GET", tree.database("shop"), status=404)
    await tree.ask("GET", tree.database("shop", branch_id))


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_name_that_postgres_takes_works_on_every_route(caller: Caller, name: str) -> None:
    tree = await plant(caller)
    made = await _created(tree, name)
    assert made["database"]["name"] == name
    assert (await tree.ask("GET", tree.database(name)))["database"] == made["database"]
    await tree.does("PATCH", tree.database(name), {"database": {"name": "plain"}})
    await tree.ask("GET", tree.database(name), status=404)
    back = await tree.does("PATCH", tree.database("plain"), {"database": {"name": name}})
    assert (back["database"]["name"], back["database"]["id"]) == (name, made["database"]["id"])
    assert name in [each["name"] for each in (await tree.grows())["databases"]]
    gone = await tree.does("DELETE", tree.database(name))
    assert (gone["database"]["name"], actions(gone)) == (name, ["apply_config"])


@pytest.mark.parametrize(("name", "sentence"), BAD_NAMES)
async def test_a_name_that_is_taken_by_postgres_or_too_long_is_refused(
    caller: Caller, name: str, sentence: str
) -> None:
    tree = await plant(caller)
    assert sentence in await tree.refused(400, "POST", databases_of(tree), _asked(name))
    assert sentence in await tree.refused(400, "PATCH", tree.database("neondb"), {"database": {"name": name}})


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
    tree = await plant(caller)
    assert await tree.refused(400, "POST", databases_of(tree), body)


@pytest.mark.parametrize("owner", ["nobody", "", "NEONDB_OWNER", "postgres", "pg_monitor"])
async def test_the_owner_is_a_role_of_the_branch(caller: Caller, owner: str) -> None:
    tree = await plant(caller)
    sentence = f"The branch has no role {owner!r}, which shall own the database. Create it first."
    assert sentence == await tree.refused(400, "POST", databases_of(tree), _asked("shop", owner))
    changed = {"database": {"owner_name": owner}}
    assert sentence == await tree.refused(400, "PATCH", tree.database("neondb"), changed)


async def test_a_role_of_another_branch_is_no_owner(caller: Caller) -> None:
    tree = await plant(caller)
    branch_id = (await tree.grows())["branch"]["id"]
    await _has_role(tree)
    await tree.ask("POST", databases_of(tree, branch_id), _asked("shop", "app"), status=400)


async def test_a_name_is_given_once_on_a_branch(caller: Caller) -> None:
    tree = await plant(caller)
    await _created(tree)
    sentence = "has a database 'shop' already. Choose another name."
    assert sentence in await tree.refused(409, "POST", databases_of(tree), _asked("shop"))
    renamed = {"database": {"name": "shop"}}
    assert sentence in await tree.refused(409, "PATCH", tree.database("neondb"), renamed)
    await _created(tree, "Shop")


async def test_of_two_that_want_a_name_at_once_one_gets_it(caller: Caller) -> None:
    tree = await plant(caller)
    answers = await asyncio.gather(*(tree.answer("POST", databases_of(tree), _asked("shop")) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [201, 423, 423]


async def test_a_name_and_an_owner_are_changed_together_or_alone(caller: Caller) -> None:
    tree = await plant(caller)
    await _has_role(tree)
    before = (await _created(tree))["database"]
    for change in ({"owner_name": "app"}, {"name": "store"}, {"name": "shop", "owner_name": "neondb_owner"}):
        changed = await tree.does("PATCH", tree.database(before["name"]), {"database": change})
        after = changed["database"]
        assert after == {**before, **change, "updated_at": after["updated_at"]}
        assert after["updated_at"] > before["updated_at"]
        assert (actions(changed), changed["operations"][0]["endpoint_id"]) == (["apply_config"], tree.endpoint)
        assert (await tree.ask("GET", tree.database(after["name"])))["database"] == after
        before = after
    await tree.ask("GET", tree.database("store"), status=404)


@pytest.mark.parametrize(
    "change",
    [{}, {"name": None, "owner_name": None}, {"name": "neondb"}, {"name": "neondb", "owner_name": "neondb_owner"}],
)
async def test_who_changes_nothing_makes_no_work(caller: Caller, change: Json) -> None:
    tree = await plant(caller)
    before = (await tree.ask("GET", tree.database("neondb")))["database"]
    assert await tree.ask("PATCH", tree.database("neondb"), {"database": change}) == {
        "database": before,
        "operations": [],
    }


@pytest.mark.parametrize("body", [None, {}, {"database": None}, {"database": {"name": 7}}, {"database": []}])
async def test_a_bad_change_is_refused(caller: Caller, body: Any) -> None:
    tree = await plant(caller)
    assert await tree.refused(400, "PATCH", tree.database("neondb"), body)


async def test_what_is_not_there(caller: Caller) -> None:
    tree = await plant(caller)
    assert await tree.ask("DELETE", tree.database("nothing"), status=204) == {}
    for method, body in (("GET", None), ("PATCH", {"database": {"name": "new"}})):
        assert "database could not be found" in await tree.refused(404, method, tree.database("nothing"), body)
    for method, body in (("GET", None), ("PATCH", {"database": {"name": "new"}}), ("DELETE", None)):
        assert "no such path" in await tree.refused(404, method, tree.database(""), body)
    nowhere = str(BranchId.new())
    for method, path, body in (
        ("GET", databases_of(tree, nowhere), None),
        ("POST", databases_of(tree, nowhere), _asked("shop")),
        ("GET", tree.database("neondb", nowhere), None),
        ("PATCH", tree.database("neondb", nowhere), {"database": {"name": "new"}}),
        ("DELETE", tree.database("neondb", nowhere), None),
    ):
        assert "branch could not be found" in await tree.refused(404, method, path, body)


async def test_another_change_of_the_branch_waits_its_turn(caller: Caller) -> None:
    tree = await plant(caller)
    await tree.ask("DELETE", tree.database("neondb"))
    for method, path, body in (
        ("POST", databases_of(tree), _asked("shop")),
        ("PATCH", tree.database("neondb"), {"database": {"name": "new"}}),
        ("DELETE", tree.role("neondb_owner"), None),
    ):
        answer = await tree.answer(method, path, body)
        assert answer.status_code == 423, f"{method} {path}: {answer.text}"
        assert int(answer.headers["retry-after"]) >= 1


async def test_strangers_find_no_database_and_a_project_key_its_own(
    front: Front, caller: Caller, stranger: Caller
) -> None:
    tree, other = await plant(caller), await plant(caller)
    outside = replace(tree, caller=stranger)
    for method, path, body in (
        ("GET", databases_of(tree), None),
        ("POST", databases_of(tree), _asked("mine")),
        ("GET", tree.database("neondb"), None),
        ("PATCH", tree.database("neondb"), {"database": {"name": "mine"}}),
        ("DELETE", tree.database("neondb"), None),
    ):
        await outside.ask(method, path, body, status=404)
    async with front.client(await caller.gets_key(KeyKind.PROJECT, tree.id)) as client:
        assert (await client.post(databases_of(tree), json=_asked("mine"))).status_code == 201
        assert (await client.post(databases_of(other), json=_asked("mine"))).status_code == 404
        assert (await client.get(tree.database("neondb", other.main))).status_code == 404
