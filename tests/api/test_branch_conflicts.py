"""Work on a branch that is in the way of other work, or is not; and who may come near at all."""

import asyncio
from dataclasses import replace

from api.callers import Caller
from api.front import Front
from api.trees import READ_WRITE, plant
from bough import clock
from bough.domain.api_key import KeyKind


async def test_who_comes_while_a_branch_is_made_or_deleted_is_told_to_come_back(caller: Caller) -> None:
    tree = await plant(caller)
    branch = tree.of((await tree.begins("dev", endpoints=(READ_WRITE,)))["branch"]["id"])
    for method, path, body in (
        ("PATCH", branch, {"branch": {"name": "new"}}),
        ("DELETE", branch, None),
        ("POST", f"{branch}/set_as_default", None),
        ("POST", f"{branch}/roles", {"role": {"name": "app"}}),
    ):
        answer = await tree.answer(method, path, body)
        assert answer.status_code == 423, f"{method} {path}: {answer.text}"
        assert int(answer.headers["retry-after"]) >= 1
        assert "Nothing was changed; try again in a moment" in answer.json()["message"]
    assert await tree.names() == ["dev", "main"]
    await tree.settles()
    await tree.ask("PATCH", branch, {"branch": {"name": "new"}})
    await tree.ask("DELETE", branch)
    await tree.ask("DELETE", tree.path, status=423)


async def test_the_parent_is_not_changed_while_it_is_copied(caller: Caller) -> None:
    tree = await plant(caller)
    parent = tree.of((await tree.grows("parent"))["branch"]["id"])
    await tree.begins("child", parent_id=parent.rpartition("/")[2])
    for method, path, body in (
        ("DELETE", parent, None),
        ("POST", f"{parent}/roles", {"role": {"name": "app"}}),
        ("POST", f"{parent}/databases", {"database": {"name": "app", "owner_name": "neondb_owner"}}),
    ):
        await tree.ask(method, path, body, status=423)
    await tree.ask("PATCH", parent, {"branch": {"name": "renamed"}})  # its data stays as it is


async def test_no_copy_is_made_of_a_branch_that_is_being_changed(caller: Caller) -> None:
    tree = await plant(caller)
    await tree.ask("POST", f"{tree.of(tree.main)}/roles", {"role": {"name": "app"}}, status=201)
    await tree.ask("POST", tree.branches, status=423)
    await tree.settles()
    assert sorted(role["name"] for role in (await tree.grows())["roles"]) == ["app", "neondb_owner"]


async def test_branches_of_one_parent_are_not_in_each_others_way(caller: Caller) -> None:
    tree = await plant(caller)
    answers = await asyncio.gather(*(tree.answer("POST", tree.branches, {}) for _ in range(8)))
    assert [answer.status_code for answer in answers] == [201] * 8
    assert {answer.json()["operations"][0]["status"] for answer in answers} == {"running"}
    assert len(await tree.names()) == 9


async def test_a_compute_that_starts_is_not_in_a_copys_way(caller: Caller) -> None:
    tree = await plant(caller)
    role = (await tree.role_rows(tree.main))["neondb_owner"]
    async with caller.front.parts.store.transaction() as rows:  # its first start is long ago
        await rows.roles.set_told(role.branch_id, role.name, role.verifier, clock.now())
    await tree.ask("POST", f"{tree.path}/endpoints/{tree.endpoint}/restart")
    assert (await tree.begins())["operations"][0]["status"] == "running"
    await tree.ask("PATCH", tree.of(tree.main), {"branch": {"name": "trunk"}})


async def test_strangers_find_no_branch(caller: Caller, stranger: Caller) -> None:
    tree = await plant(caller)
    branch = tree.of((await tree.grows("dev"))["branch"]["id"])
    outside = replace(tree, caller=stranger)
    for method, path, body in (
        ("GET", tree.branches, None),
        ("POST", tree.branches, {}),
        ("GET", f"{tree.branches}/count", None),
        ("GET", branch, None),
        ("PATCH", branch, {"branch": {"name": "mine"}}),
        ("DELETE", branch, None),
        ("POST", f"{branch}/set_as_default", None),
        ("GET", f"{branch}/endpoints", None),
    ):
        assert "project could not be found" in (await outside.ask(method, path, body, status=404))["message"]
    assert await tree.names() == ["dev", "main"]


async def test_a_project_key_works_on_the_branches_of_its_project(front: Front, caller: Caller) -> None:
    tree, other = await plant(caller), await plant(caller)
    token = await caller.gets_key(KeyKind.PROJECT, tree.id)
    async with front.client(token) as client:
        inside = replace(tree, caller=replace(caller, token=token, client=client))
        branch = inside.of((await inside.grows("dev", endpoints=(READ_WRITE,)))["branch"]["id"])
        await inside.does("POST", f"{branch}/roles", {"role": {"name": "app"}}, status=201)
        await inside.ask("PATCH", branch, {"branch": {"name": "next"}})
        await inside.does("DELETE", branch)
        for method, path in (("POST", other.branches), ("GET", other.branches), ("DELETE", other.of(other.main))):
            await inside.ask(method, path, status=404)
        crossed = {"branch": {"parent_id": other.main}}
        await inside.ask("POST", inside.branches, crossed, status=404)
