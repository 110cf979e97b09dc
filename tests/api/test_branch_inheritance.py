"""What a branch inherits from its parent: roles, passwords, databases and connection strings."""

from dataclasses import replace

import pytest

from api.project_client import READ_ONLY, READ_WRITE, create_project_client
from api.test_project_create import WITHOUT_DOTS
from support.api_client import Caller


async def test_roles_and_databases_are_the_parents_with_their_passwords(caller: Caller) -> None:
    tree = await create_project_client(caller, branch={"role_name": "owner", "database_name": "shop"})
    app = await tree.request_and_finish(
        "POST", f"{tree.branch_path(tree.main_branch_id)}/roles", {"role": {"name": "app"}}, status=201
    )
    await tree.request_and_finish(
        "POST",
        f"{tree.branch_path(tree.main_branch_id)}/roles",
        {"role": {"name": "team", "no_login": True}},
        status=201,
    )
    requested = {"database": {"name": "stock", "owner_name": "app"}}
    await tree.request_and_finish("POST", f"{tree.branch_path(tree.main_branch_id)}/databases", requested, status=201)
    created = await tree.create_branch(endpoints=(READ_WRITE,))

    branch_id, known = (
        created["branch"]["id"],
        {"owner": tree.creation_response["roles"][0]["password"], "app": app["role"]["password"]},
    )
    assert {each["name"]: each.get("password") for each in created["roles"]} == {**known, "team": None}
    assert {each["branch_id"] for each in [*created["roles"], *created["databases"]]} == {branch_id}
    assert [(each["name"], each["owner_name"]) for each in created["databases"]] == [
        ("shop", "owner"),
        ("stock", "app"),
    ]
    for name, password in known.items():
        assert (await tree.request("GET", f"{tree.role_path(name, branch_id)}/reveal_password"))["password"] == password
    before, after = await tree.get_role_rows(tree.main_branch_id), await tree.get_role_rows(branch_id)
    assert {name: role.verifier for name, role in after.items()} == {
        name: role.verifier for name, role in before.items()
    }
    assert (await tree.get_role_rows(branch_id))["team"].can_login is False
    listed = (await tree.request("GET", f"{tree.branch_path(branch_id)}/roles"))["roles"]
    assert {each["name"]: each["authentication_method"] for each in listed} == {
        "app": "password",
        "owner": "password",
        "team": "no_login",
    }
    assert (await tree.request("GET", f"{tree.branch_path(branch_id)}/databases"))["databases"] == created["databases"]


async def test_the_uris_lead_to_the_databases_as_their_owners(caller: Caller) -> None:
    tree = await create_project_client(caller, branch={"role_name": "owner", "database_name": "shop"})
    created = await tree.create_branch(endpoints=(READ_WRITE,))
    (uri,) = created["connection_uris"]
    assert WITHOUT_DOTS.fullmatch(uri["connection_uri"])
    expected = {
        "host": created["endpoints"][0]["host"],
        "role": "owner",
        "password": tree.creation_response["roles"][0]["password"],
        "database": "shop",
    }
    assert uri["connection_parameters"] | expected == uri["connection_parameters"]


async def test_the_uris_lead_where_one_can_write(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch(endpoints=(READ_ONLY, READ_WRITE))
    writer = next(each for each in created["endpoints"] if each["type"] == "read_write")
    assert [each["connection_parameters"]["host"] for each in created["connection_uris"]] == [writer["host"]]


@pytest.mark.parametrize("stored", [True, False])
async def test_a_child_of_a_protected_branch_has_passwords_of_its_own(caller: Caller, stored: bool) -> None:
    tree = await create_project_client(caller, store_passwords=stored)
    await tree.request_and_finish(
        "POST",
        f"{tree.branch_path(tree.main_branch_id)}/roles",
        {"role": {"name": "team", "no_login": True}},
        status=201,
    )
    await tree.request("PATCH", tree.branch_path(tree.main_branch_id), {"branch": {"protected": True}})
    before = await tree.get_role_rows(tree.main_branch_id)
    created = await tree.create_branch(endpoints=(READ_WRITE,))

    branch_id, passwords = created["branch"]["id"], {each["name"]: each.get("password") for each in created["roles"]}
    own = passwords["neondb_owner"]
    assert own
    assert own != tree.creation_response["roles"][0]["password"]
    assert passwords["team"] is None
    assert f":{own}@" in created["connection_uris"][0]["connection_uri"]
    assert await tree.get_role_rows(tree.main_branch_id) == before
    after = await tree.get_role_rows(branch_id)
    assert after["neondb_owner"].verifier not in (None, before["neondb_owner"].verifier)
    assert (after["team"].verifier, after["team"].can_login) == (None, False)
    if stored:
        assert (await tree.request("GET", f"{tree.role_path('neondb_owner', branch_id)}/reveal_password"))[
            "password"
        ] == own
        parents = await tree.request("GET", f"{tree.role_path('neondb_owner')}/reveal_password")
        assert parents["password"] == tree.creation_response["roles"][0]["password"]
    else:
        assert after["neondb_owner"].sealed_password is None
    grandchild = await tree.create_branch(parent_id=branch_id)
    assert {each["name"]: each.get("password") for each in grandchild["roles"]} == (
        passwords if stored else {"neondb_owner": None, "team": None}
    )


async def test_where_passwords_are_not_stored_a_child_has_them_and_nobody_shows_them(caller: Caller) -> None:
    tree = await create_project_client(caller, store_passwords=False)
    created = await tree.create_branch(endpoints=(READ_WRITE,))
    assert [each.get("password") for each in created["roles"]] == [None]
    assert "connection_uris" not in created
    row = (await tree.get_role_rows(created["branch"]["id"]))["neondb_owner"]
    assert (row.verifier, row.sealed_password) == (
        (await tree.get_role_rows(tree.main_branch_id))["neondb_owner"].verifier,
        None,
    )


async def test_a_password_that_nobody_can_open_any_more_is_not_in_the_way(caller: Caller) -> None:
    tree = await create_project_client(caller)
    row = (await tree.get_role_rows(tree.main_branch_id))["neondb_owner"]
    async with caller.api_app.services.store.transaction() as rows:
        await rows.roles.save(replace(row, sealed_password=(row.sealed_password or "")[:-4] + "AAAA"))
    created = await tree.create_branch()
    assert [each.get("password") for each in created["roles"]] == [None]
    assert (await tree.get_role_rows(created["branch"]["id"]))["neondb_owner"].verifier == row.verifier


async def test_a_branchs_uri_is_told_again_for_its_own_endpoint(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await tree.create_branch(endpoints=(READ_WRITE, READ_ONLY))
    requested = {"branch_id": created["branch"]["id"], "role_name": "neondb_owner", "database_name": "neondb"}
    path = f"{tree.path}/connection_uri"
    assert (await tree.request("GET", path, **requested))["uri"] == created["connection_uris"][0]["connection_uri"]
    reader = created["endpoints"][1]
    assert (
        f"@{reader['host']}/neondb" in (await tree.request("GET", path, **requested, endpoint_id=reader["id"]))["uri"]
    )
    await tree.request_and_finish("DELETE", f"{tree.path}/endpoints/{created['endpoints'][0]['id']}")
    response = await tree.request("GET", path, **requested, status=404)
    assert "has no read-write endpoint. Create one, or use endpoint_id." in response["message"]


async def test_there_is_no_uri_for_a_group(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await tree.request_and_finish(
        "POST",
        f"{tree.branch_path(tree.main_branch_id)}/roles",
        {"role": {"name": "team", "no_login": True}},
        status=201,
    )
    requested = {"role_name": "team", "database_name": "neondb"}
    response = await tree.request("GET", f"{tree.path}/connection_uri", **requested, status=412)
    assert response["message"] == "The role 'team' may not log in, so it has no password."
