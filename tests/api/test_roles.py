"""Roles of a branch: every valid Postgres name works on every route, and passwords are shown once."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from api.project_client import READ_WRITE, ProjectClient, create_project_client, operation_actions
from bough.domain.api_key import KeyKind
from bough.ids import BranchId, EndpointId
from bough.postgres.scram import scram_verifier
from support.api_app import ApiApp
from support.api_client import Caller, Json

ODD_NAMES = [
    "it's",
    'say "hi"',
    "a.b",
    "a/b",
    "/",
    "a//b/",
    "..a",
    ".",
    "..",
    "grün 🌿",
    "100%",
    "%2F",
    "a b",
    " a ",
    "a?b#c",
    "a&b=c",
    "a+b",
    "a;b:c@d",
    "back\\slash",
    "{braces}",
    "$(touch)`x`",
    "'; drop role neondb_owner; --",
    "SELECT",
    "Neondb_Owner",
    "reveal_password",
    "x" * 63,
    "é" * 31,
    "日" * 21,
]
BAD_NAMES = [
    ("", "needs a name of at least one character"),
    ("x" * 64, "is longer than 63 bytes"),
    ("é" * 32, "is longer than 63 bytes"),
    ("日" * 21 + "x", "is longer than 63 bytes"),
    ("a\0b", "NUL"),
    ("a\nb", "control character"),
    ("\x7f", "control character"),
    ("a\x1b[31m", "control character"),
    ("pg_x", "is reserved; choose another"),
    ("PG_monitor", "is reserved"),
    ("bough_x", "is reserved"),
    ("public", "is reserved"),
    ("Public", "is reserved"),
    ("none", "is reserved"),
    ("postgres", "is reserved"),
    ("current_user", "is reserved"),
    ("session_user", "is reserved"),
    ("user", "is reserved"),
]


def roles_of(tree: ProjectClient, branch_id: str | None = None) -> str:
    return f"{tree.branch_path(branch_id or tree.main_branch_id)}/roles"


def _opens(password: str, verifier: str) -> bool:
    _, mixed, _ = verifier.split("$")
    iterations, salt = mixed.split(":")
    return scram_verifier(password, base64.b64decode(salt), int(iterations)) == verifier


async def _created(tree: ProjectClient, name: str = "app", **fields: Any) -> Json:
    return await tree.request_and_finish("POST", roles_of(tree), {"role": {"name": name, **fields}}, status=201)


async def test_one_is_created_with_a_password_and_shown_without(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await _created(tree)
    role, password = created["role"], created["role"].pop("password")
    assert password.isidentifier()  # only letters, digits and _, so URIs need no quoting
    assert (role["name"], role["branch_id"], role["protected"]) == ("app", tree.main_branch_id, False)
    assert role["authentication_method"] == "password"
    (work,) = created["operations"]
    assert (work["action"], work["status"], work["branch_id"]) == ("apply_config", "running", tree.main_branch_id)
    assert work["endpoint_id"] == tree.endpoint_id
    assert (await tree.request("GET", tree.role_path("app")))["role"] == role
    assert role in (await tree.request("GET", roles_of(tree)))["roles"]
    assert (await tree.request("GET", f"{tree.role_path('app')}/reveal_password")) == {"password": password}
    row = (await tree.get_role_rows(tree.main_branch_id))["app"]
    assert row.verifier
    assert _opens(password, row.verifier)
    assert row.sealed_password
    assert password not in row.sealed_password


async def test_its_work_carries_no_secret(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await tree.request("POST", roles_of(tree), {"role": {"name": "app"}}, status=201)
    async with caller.api_app.services.store.read() as rows:
        (work,) = await rows.operations.list_open(tree.creation_response["branch"]["project_id"])
    assert work.parameters == {"change": {"kind": "make_role", "name": "app", "can_login": True}}


async def test_without_an_endpoint_the_work_names_the_branch_alone(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch())["branch"]["id"]
    created = await tree.request_and_finish("POST", roles_of(tree, branch_id), {"role": {"name": "app"}}, status=201)
    assert (created["role"]["branch_id"], operation_actions(created)) == (branch_id, ["apply_config"])
    assert (created["operations"][0]["branch_id"], "endpoint_id" in created["operations"][0]) == (branch_id, False)
    await tree.request("GET", tree.role_path("app"), status=404)


async def test_lists_are_by_name(caller: Caller) -> None:
    tree = await create_project_client(caller)
    for name in ("zoe", "app"):
        await _created(tree, name)
    assert [role["name"] for role in (await tree.request("GET", roles_of(tree)))["roles"]] == [
        "app",
        "neondb_owner",
        "zoe",
    ]


@pytest.mark.parametrize("name", ["app\n", "\napp", "a\npp", "\n", "app\r"])
async def test_a_line_end_makes_another_name(caller: Caller, name: str) -> None:
    tree = await create_project_client(caller)
    await _created(tree, "app")
    before = await tree.read_state()
    for kind in (tree.role_path, tree.database_path):
        await tree.request("GET", kind(name), status=404)
        await tree.request("DELETE", kind(name), status=204)
    await tree.request("POST", f"{tree.role_path(name)}/reset_password", status=404)
    await tree.request("PATCH", tree.database_path(name), {"database": {"name": "other"}}, status=404)
    assert await tree.read_state() == before


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_name_that_postgres_takes_works_on_every_route(caller: Caller, name: str) -> None:
    tree = await create_project_client(caller)
    created = await _created(tree, name)
    password = created["role"]["password"]
    assert created["role"]["name"] == name
    assert (await tree.request("GET", tree.role_path(name)))["role"]["name"] == name
    assert (await tree.request("GET", f"{tree.role_path(name)}/reveal_password"))["password"] == password
    reset = await tree.request_and_finish("POST", f"{tree.role_path(name)}/reset_password")
    assert reset["role"]["name"] == name
    assert (await tree.request("GET", f"{tree.role_path(name)}/reveal_password"))["password"] == reset["role"][
        "password"
    ]
    requested = {"database": {"name": "owned", "owner_name": name}}
    owned = await tree.request_and_finish(
        "POST", f"{tree.branch_path(tree.main_branch_id)}/databases", requested, status=201
    )
    assert owned["database"]["owner_name"] == name
    await tree.request_and_finish("PATCH", tree.database_path("owned"), {"database": {"owner_name": "neondb_owner"}})
    inherited = await tree.create_branch()
    assert name in [role["name"] for role in inherited["roles"]]
    deleted = await tree.request_and_finish("DELETE", tree.role_path(name))
    assert (deleted["role"]["name"], operation_actions(deleted)) == (name, ["apply_config"])


@pytest.mark.parametrize(("name", "sentence"), BAD_NAMES)
async def test_a_name_that_is_taken_by_postgres_or_too_long_is_refused(
    caller: Caller, name: str, sentence: str
) -> None:
    tree = await create_project_client(caller)
    assert sentence in await tree.expect_error(400, "POST", roles_of(tree), {"role": {"name": name}})


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"role": {}},
        {"role": {"name": None}},
        {"role": {"name": 7}},
        {"role": {"name": "a", "no_login": "no"}},
    ],
)
async def test_a_bad_body_is_refused(caller: Caller, body: Any) -> None:
    tree = await create_project_client(caller)
    assert await tree.expect_error(400, "POST", roles_of(tree), body)


async def test_a_name_is_given_once_on_a_branch(caller: Caller) -> None:
    tree = await create_project_client(caller)
    requested = {"role": {"name": "neondb_owner"}}
    sentence = await tree.expect_error(409, "POST", roles_of(tree), requested)
    assert "already has a role 'neondb_owner'. Choose another name, or reset its password." in sentence
    await _created(tree, "app")
    await _created(tree, "App")


async def test_a_group_has_no_password(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await _created(tree, "team", no_login=True)
    assert ("password" in created["role"], created["role"]["authentication_method"]) == (False, "no_login")
    for method, verb, status in (("GET", "reveal_password", 412), ("POST", "reset_password", 422)):
        sentence = await tree.expect_error(status, method, f"{tree.role_path('team')}/{verb}")
        assert "'team' may not log in, so it has no password" in sentence


async def test_what_is_not_stored_is_not_shown(caller: Caller) -> None:
    tree = await create_project_client(caller, store_passwords=False)
    created = await _created(tree)
    assert created["role"]["password"]
    sentence = await tree.expect_error(412, "GET", f"{tree.role_path('app')}/reveal_password")
    assert "does not store passwords, so none can be shown. Reset the password to get a new one." in sentence
    assert (await tree.request_and_finish("POST", f"{tree.role_path('app')}/reset_password"))["role"]["password"]
    assert (await tree.get_role_rows(tree.main_branch_id))["app"].sealed_password is None


async def test_what_was_set_with_sql_is_not_known(caller: Caller) -> None:
    tree = await create_project_client(caller)
    row = (await tree.get_role_rows(tree.main_branch_id))["neondb_owner"]
    async with caller.api_app.services.store.transaction() as rows:
        await rows.roles.save(replace(row, sealed_password=None, verifier="SCRAM-SHA-256$of$sql:s"))
    path = tree.role_path("neondb_owner")
    assert "was set with SQL, so it is not stored here" in await tree.expect_error(
        412, "GET", f"{path}/reveal_password"
    )
    password = (await tree.request_and_finish("POST", f"{path}/reset_password"))["role"]["password"]
    assert (await tree.request("GET", f"{path}/reveal_password"))["password"] == password


async def test_a_reset_changes_the_password_at_once_and_gateways_hear_of_it(caller: Caller) -> None:
    tree = await create_project_client(caller)
    endpoint, activity = EndpointId(tree.endpoint_id), caller.api_app.services.activity
    await activity.report("roles", 1, [])
    old, before = (
        tree.creation_response["roles"][0]["password"],
        (await tree.get_role_rows(tree.main_branch_id))["neondb_owner"],
    )
    other = (await tree.create_branch(endpoints=(READ_WRITE,)))["endpoints"][0]["id"]
    reset = await tree.request("POST", f"{tree.role_path('neondb_owner')}/reset_password")
    assert (operation_actions(reset), reset["operations"][0]["endpoint_id"]) == (["apply_config"], tree.endpoint_id)
    notified = await activity.report("roles", 2, [])
    assert endpoint in notified
    assert other not in notified
    after = (await tree.get_role_rows(tree.main_branch_id))["neondb_owner"]
    assert after.verifier is not None
    assert reset["role"]["password"] != old
    assert (_opens(reset["role"]["password"], after.verifier), _opens(old, after.verifier)) == (True, False)
    assert after.updated_at > before.updated_at
    assert (await tree.request("GET", f"{tree.role_path('neondb_owner')}/reveal_password"))["password"] != old


async def test_gateways_hear_that_a_role_goes(caller: Caller) -> None:
    tree = await create_project_client(caller)
    await _created(tree)
    await caller.api_app.services.activity.report("gone roles", 1, [])
    await tree.request("DELETE", tree.role_path("app"))
    assert tree.endpoint_id in await caller.api_app.services.activity.report("gone roles", 2, [])


async def test_the_owner_of_a_database_stays(caller: Caller) -> None:
    tree = await create_project_client(caller)
    sentence = await tree.expect_error(422, "DELETE", tree.role_path("neondb_owner"))
    assert "owns the database 'neondb'. Change the owner of the database, or delete the database first." in sentence
    await _created(tree)
    await tree.request_and_finish("PATCH", tree.database_path("neondb"), {"database": {"owner_name": "app"}})
    await tree.request_and_finish("DELETE", tree.role_path("neondb_owner"))
    assert "'neondb'" in await tree.expect_error(422, "DELETE", tree.role_path("app"))


async def test_what_is_not_there(caller: Caller) -> None:
    tree = await create_project_client(caller)
    assert await tree.request("DELETE", tree.role_path("nobody"), status=204) == {}
    for method, path in (
        ("GET", tree.role_path("nobody")),
        ("GET", f"{tree.role_path('nobody')}/reveal_password"),
        ("POST", f"{tree.role_path('nobody')}/reset_password"),
        ("GET", tree.role_path("NEONDB_OWNER")),
        ("GET", tree.role_path("x" * 500)),
    ):
        assert "role could not be found" in await tree.expect_error(404, method, path)
    for method, rest, body in (
        ("GET", "", None),
        ("POST", "", {"role": {"name": "app"}}),
        ("GET", "/neondb_owner", None),
        ("DELETE", "/neondb_owner", None),
        ("GET", "/neondb_owner/reveal_password", None),
        ("POST", "/neondb_owner/reset_password", None),
    ):
        path = roles_of(tree, str(BranchId.new())) + rest
        assert "branch could not be found" in await tree.expect_error(404, method, path, body)
    assert "NUL" in await tree.expect_error(400, "GET", tree.role_path("a\0b"))
    for method in ("GET", "DELETE"):
        assert "This path does not exist" in await tree.expect_error(404, method, tree.role_path(""))


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        ("POST", ""),
        ("PATCH", ""),
        ("PUT", ""),
        ("POST", "/reveal_password"),
        ("DELETE", "/reveal_password"),
        ("GET", "/reset_password"),
        ("DELETE", "/reset_password"),
    ],
)
async def test_a_verb_has_one_method(caller: Caller, method: str, rest: str) -> None:
    tree = await create_project_client(caller)
    sentence = await tree.expect_error(405, method, tree.role_path("neondb_owner") + rest)
    assert "does not support this method" in sentence


async def test_another_change_of_the_branch_waits_its_turn(caller: Caller) -> None:
    tree = await create_project_client(caller)
    other = (await tree.create_branch())["branch"]["id"]
    await tree.request("POST", roles_of(tree), {"role": {"name": "app"}}, status=201)
    for method, path, body in (
        ("POST", roles_of(tree), {"role": {"name": "next"}}),
        ("DELETE", tree.role_path("app"), None),
        ("POST", f"{tree.role_path('neondb_owner')}/reset_password", None),
        (
            "POST",
            f"{tree.branch_path(tree.main_branch_id)}/databases",
            {"database": {"name": "next", "owner_name": "app"}},
        ),
        ("POST", f"{tree.path}/endpoints/{tree.endpoint_id}/suspend", None),
    ):
        response = await tree.send(method, path, body)
        assert response.status_code == 423, f"{method} {path}: {response.text}"
        assert int(response.headers["retry-after"]) >= 1
    assert (await tree.request("GET", tree.role_path("app")))["role"]["name"] == "app"
    await tree.request_and_finish("POST", roles_of(tree, other), {"role": {"name": "next"}}, status=201)
    await tree.request_and_finish("POST", roles_of(tree), {"role": {"name": "next"}}, status=201)


async def test_strangers_find_no_role_and_a_project_key_its_own(
    api_app: ApiApp, caller: Caller, stranger: Caller
) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    outside = replace(tree, caller=stranger)
    for method, path in (
        ("GET", roles_of(tree)),
        ("GET", tree.role_path("neondb_owner")),
        ("GET", f"{tree.role_path('neondb_owner')}/reveal_password"),
        ("POST", f"{tree.role_path('neondb_owner')}/reset_password"),
        ("DELETE", tree.role_path("neondb_owner")),
    ):
        await outside.request(method, path, status=404)
    async with api_app.client(await caller.create_key(KeyKind.PROJECT, tree.id)) as client:
        reveal = "/roles/neondb_owner/reveal_password"
        assert (await client.get(tree.branch_path(tree.main_branch_id) + reveal)).status_code == 200
        assert (await client.get(other.branch_path(other.main_branch_id) + reveal)).status_code == 404
        assert (await client.get(tree.branch_path(other.main_branch_id) + reveal)).status_code == 404
