"""Operations on a branch that conflict with other operations, and access to branches."""

import asyncio
from dataclasses import replace

from api.project_client import READ_WRITE, create_project_client
from bough import clock
from bough.domain.api_key import KeyKind
from support.api_app import ApiApp
from support.api_client import Caller


async def test_who_comes_while_a_branch_is_made_or_deleted_is_told_to_come_back(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch = tree.branch_path((await tree.begin_branch("dev", endpoints=(READ_WRITE,)))["branch"]["id"])
    for method, path, body in (
        ("PATCH", branch, {"branch": {"name": "new"}}),
        ("DELETE", branch, None),
        ("POST", f"{branch}/set_as_default", None),
        ("POST", f"{branch}/roles", {"role": {"name": "app"}}),
    ):
        response = await tree.send(method, path, body)
        assert response.status_code == 423, f"{method} {path}: {response.text}"
        assert int(response.headers["retry-after"]) >= 1
        assert "Nothing was changed; try again in a moment" in response.json()["message"]
    assert await tree.list_branch_names() == ["dev", "main"]
    await tree.finish_operations()
    await tree.request("PATCH", branch, {"branch": {"name": "new"}})
    await tree.request("DELETE", branch)
    await tree.request("DELETE", tree.path, status=423)


async def test_the_parent_is_not_changed_while_it_is_copied(caller: Caller) -> None:
    tree = await create_project_client(caller)
    parent = tree.branch_path((await tree.create_branch("parent"))["branch"]["id"])
    await tree.begin_branch("child", parent_id=parent.rpartition("/")[2])
    for method, path, body in (
        ("DELETE", parent, None),
        ("POST", f"{parent}/roles", {"role": {"name": "app"}}),
        ("POST", f"{parent}/databases", {"database": {"name": "app", "owner_name": "neondb_owner"}}),
    ):
        await tree.request(method, path, body, status=423)
    await tree.request("PATCH", parent, {"branch": {"name": "renamed"}})  # does not change its data


async def test_no_copy_is_made_of_a_branch_that_is_being_changed(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await tree.request("POST", f"{tree.branch_path(tree.main_branch_id)}/roles", {"role": {"name": "app"}}, status=201)
    await tree.request("POST", tree.branches_path, status=423)
    await tree.finish_operations()
    assert sorted(role["name"] for role in (await tree.create_branch())["roles"]) == ["app", "neondb_owner"]


async def test_branches_of_one_parent_are_not_in_each_others_way(caller: Caller) -> None:
    tree = await create_project_client(caller)
    answers = await asyncio.gather(*(tree.send("POST", tree.branches_path, {}) for _ in range(8)))
    assert [response.status_code for response in answers] == [201] * 8
    assert {response.json()["operations"][0]["status"] for response in answers} == {"running"}
    assert len(await tree.list_branch_names()) == 9


async def test_a_compute_that_starts_is_not_in_a_copys_way(caller: Caller) -> None:
    tree = await create_project_client(caller)
    role = (await tree.get_role_rows(tree.main_branch_id))["neondb_owner"]
    async with caller.api_app.services.store.transaction() as rows:  # as if its first start was long ago
        await rows.roles.mark_applied(role.branch_id, role.name, role.verifier, clock.now())
    await tree.request("POST", f"{tree.path}/endpoints/{tree.endpoint_id}/restart")
    assert (await tree.begin_branch())["operations"][0]["status"] == "running"
    await tree.request("PATCH", tree.branch_path(tree.main_branch_id), {"branch": {"name": "trunk"}})


async def test_strangers_find_no_branch(caller: Caller, stranger: Caller) -> None:
    tree = await create_project_client(caller)
    branch = tree.branch_path((await tree.create_branch("dev"))["branch"]["id"])
    outside = replace(tree, caller=stranger)
    for method, path, body in (
        ("GET", tree.branches_path, None),
        ("POST", tree.branches_path, {}),
        ("GET", f"{tree.branches_path}/count", None),
        ("GET", branch, None),
        ("PATCH", branch, {"branch": {"name": "mine"}}),
        ("DELETE", branch, None),
        ("POST", f"{branch}/set_as_default", None),
        ("GET", f"{branch}/endpoints", None),
    ):
        assert "project could not be found" in (await outside.request(method, path, body, status=404))["message"]
    assert await tree.list_branch_names() == ["dev", "main"]


async def test_a_project_key_works_on_the_branches_of_its_project(api_app: ApiApp, caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    token = await caller.create_key(KeyKind.PROJECT, tree.id)
    async with api_app.client(token) as client:
        inside = replace(tree, caller=replace(caller, token=token, client=client))
        branch = inside.branch_path((await inside.create_branch("dev", endpoints=(READ_WRITE,)))["branch"]["id"])
        await inside.request_and_finish("POST", f"{branch}/roles", {"role": {"name": "app"}}, status=201)
        await inside.request("PATCH", branch, {"branch": {"name": "next"}})
        await inside.request_and_finish("DELETE", branch)
        for method, path in (
            ("POST", other.branches_path),
            ("GET", other.branches_path),
            ("DELETE", other.branch_path(other.main_branch_id)),
        ):
            await inside.request(method, path, status=404)
        crossed = {"branch": {"parent_id": other.main_branch_id}}
        await inside.request("POST", inside.branches_path, crossed, status=404)
