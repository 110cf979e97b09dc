"""Creating and deleting endpoints: one read-write endpoint and any number of read-only ones per branch."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from api.project_client import (
    READ_ONLY,
    READ_WRITE,
    ProjectClient,
    create_project_client,
    operation_actions,
    operation_statuses,
)
from bough.domain.api_key import KeyKind
from bough.ids import BranchId, EndpointId
from support.api_app import ApiApp
from support.api_client import Caller, Json

DEFAULTS = {"suspend_timeout_seconds": 600, "autoscaling_limit_min_cu": 0.5, "autoscaling_limit_max_cu": 1}


async def _answer(tree: ProjectClient, status: int, kind: Json, branch_id: str | None = None, **fields: Any) -> Json:
    requested = {"branch_id": branch_id or tree.main_branch_id, **kind, **fields}
    return await tree.request("POST", f"{tree.path}/endpoints", {"endpoint": requested}, status=status)


async def _created(tree: ProjectClient, kind: Json, branch_id: str | None = None, **fields: Any) -> Json:
    created = await _answer(tree, 201, kind, branch_id, **fields)
    await tree.finish_operations()
    return created


async def _refused(tree: ProjectClient, status: int, kind: Json, **fields: Any) -> str:
    requested = {"branch_id": tree.main_branch_id, **kind, **fields}
    return await tree.expect_error(status, "POST", f"{tree.path}/endpoints", {"endpoint": requested})


async def _listed(tree: ProjectClient, branch_id: str | None = None) -> list[str]:
    path = tree.branch_path(branch_id) if branch_id else tree.path
    return [each["id"] for each in (await tree.request("GET", f"{path}/endpoints"))["endpoints"]]


@pytest.mark.parametrize("kind", [READ_WRITE, READ_ONLY])
async def test_one_starts_at_once_with_the_projects_defaults(caller: Caller, kind: Json) -> None:
    tree = await create_project_client(caller, default_endpoint_settings=DEFAULTS)
    branch_id = (await tree.create_branch())["branch"]["id"]
    created = await _created(tree, kind, branch_id)
    endpoint = created["endpoint"]
    assert endpoint | kind | DEFAULTS == endpoint
    assert (endpoint["branch_id"], endpoint["project_id"]) == (branch_id, tree.id)
    assert (endpoint["current_state"], endpoint["pending_state"]) == ("init", "active")
    assert (endpoint["disabled"], endpoint["passwordless_access"], endpoint["pooler_enabled"]) == (False, True, False)
    assert endpoint["host"] == f"{endpoint['id']}.{endpoint['proxy_host']}"
    assert (endpoint["settings"], "name" in endpoint) == ({}, False)
    assert (operation_actions(created), operation_statuses(created)) == (["start_compute"], ["running"])
    assert (created["operations"][0]["endpoint_id"], created["operations"][0]["branch_id"]) == (
        endpoint["id"],
        branch_id,
    )
    assert (await tree.request("GET", f"{tree.path}/endpoints/{endpoint['id']}"))["endpoint"] == endpoint
    assert await _listed(tree, branch_id) == [endpoint["id"]]
    assert await _listed(tree) == [tree.endpoint_id, endpoint["id"]]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "reports 🌿"},
        {"autoscaling_limit_min_cu": 0.25, "autoscaling_limit_max_cu": 4},
        {"suspend_timeout_seconds": -1},
        {"suspend_timeout_seconds": 604_800},
        {"passwordless_access": False},
        {"pooler_enabled": True, "pooler_mode": "transaction"},
        {"provisioner": "k8s-pod"},
        {"settings": {"pg_settings": {"work_mem": "9MB"}, "pgbouncer_settings": {"default_pool_size": "5"}}},
        {"region_id": "aws-us-east-2"},
    ],
)
async def test_what_is_asked_for_is_kept_and_shown(caller: Caller, fields: Json) -> None:
    tree = await create_project_client(caller)
    endpoint = (await _created(tree, READ_ONLY, **fields))["endpoint"]
    assert endpoint | fields == endpoint
    assert (await tree.request("GET", f"{tree.path}/endpoints/{endpoint['id']}"))["endpoint"] == endpoint


async def test_the_projects_settings_are_taken_over_a_group_at_a_time(caller: Caller) -> None:
    defaults = {"pg_settings": {"work_mem": "8MB"}, "pgbouncer_settings": {"default_pool_size": "7"}}
    tree = await create_project_client(caller, default_endpoint_settings=defaults)
    own = {"pg_settings": {"statement_timeout": "5s"}}
    assert (await _created(tree, READ_ONLY))["endpoint"]["settings"] == defaults
    assert (await _created(tree, READ_ONLY, settings=own))["endpoint"]["settings"] == {**defaults, **own}


async def test_a_disabled_one_does_not_start(caller: Caller) -> None:
    tree = await create_project_client(caller)
    created = await _answer(tree, 201, READ_ONLY, disabled=True)
    endpoint = created["endpoint"]
    assert (endpoint["disabled"], endpoint["current_state"], "pending_state" in endpoint) == (True, "init", False)
    assert created["operations"] == []
    path = f"{tree.path}/endpoints/{endpoint['id']}"
    assert "is disabled. Enable it first" in await tree.expect_error(412, "POST", f"{path}/start")
    await tree.request("PATCH", path, {"endpoint": {"disabled": False}})
    assert operation_actions(await tree.request("POST", f"{path}/start")) == ["start_compute"]


async def test_a_branch_has_one_that_writes_and_many_that_read(caller: Caller) -> None:
    tree = await create_project_client(caller)
    sentence = await _refused(tree, 422, READ_WRITE)
    assert "already has a read_write endpoint" in sentence
    assert "Create a read_only endpoint, or delete the existing one" in sentence
    readers = [(await _created(tree, READ_ONLY))["endpoint"]["id"] for _ in range(3)]
    assert await _listed(tree) == [tree.endpoint_id, *readers]
    await tree.request_and_finish("DELETE", f"{tree.path}/endpoints/{tree.endpoint_id}")
    writer = (await _created(tree, READ_WRITE))["endpoint"]["id"]
    assert await _listed(tree) == [*readers, writer]


async def test_of_two_that_want_to_write_at_once_one_does(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.create_branch())["branch"]["id"]
    requested = {"endpoint": {"branch_id": branch_id, **READ_WRITE}}
    answers = await asyncio.gather(*(tree.send("POST", f"{tree.path}/endpoints", requested) for _ in range(3)))
    assert sorted(response.status_code for response in answers) == [201, 422, 422]


async def test_several_readers_are_made_at_once(caller: Caller) -> None:
    tree = await create_project_client(caller)
    requested = {"endpoint": {"branch_id": tree.main_branch_id, **READ_ONLY}}
    answers = await asyncio.gather(*(tree.send("POST", f"{tree.path}/endpoints", requested) for _ in range(4)))
    assert [response.status_code for response in answers] == [201] * 4


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"region_id": "aws-eu-central-1"}, "Endpoints are in the region of their project, aws-us-east-2"),
        ({"region_id": ""}, "leave region_id out"),
        ({"type": "write_only"}, "endpoint.type"),
        ({"type": None}, "endpoint.type"),
        ({"branch_id": "Not An Id"}, "endpoint.branch_id"),
        ({"branch_id": None}, "endpoint.branch_id"),
        ({"autoscaling_limit_min_cu": 0.1}, "autoscaling_limit_min_cu"),
        ({"autoscaling_limit_min_cu": 4, "autoscaling_limit_max_cu": 2}, "is larger than autoscaling_limit_max_cu"),
        ({"autoscaling_limit_max_cu": 1024}, "exceeds the 64 CU that the plan allows"),
        ({"autoscaling_limit_max_cu": "2"}, "endpoint.autoscaling_limit_max_cu"),
        ({"suspend_timeout_seconds": 59}, "use 0 for the default, -1 for never, or 60 to 604800"),
        ({"suspend_timeout_seconds": -2}, "suspend_timeout_seconds"),
        ({"suspend_timeout_seconds": 604_801}, "suspend_timeout_seconds"),
        ({"settings": {"pg_settings": {"fsync": "off"}}}, "fsync"),
        ({"settings": {"pg_settings": {"work_mem": "a lot"}}}, "work_mem"),
        ({"settings": {"pgbouncer_settings": {"max_client_conn": "9"}}}, "is not supported"),
        ({"settings": {"preload_libraries": {"enabled_libraries": ["x"]}}}, "cannot be preloaded"),
        ({"pooler_mode": "session"}, "only transaction is supported"),
        ({"passwordless_access": "no"}, "endpoint.passwordless_access"),
        ({"disabled": 0}, "endpoint.disabled"),
        ({"provisioner": ""}, "endpoint.provisioner"),
        ({"name": ""}, "endpoint.name"),
        ({"name": "x" * 65}, "endpoint.name"),
        ({"name": "a\0b"}, "NUL"),
    ],
)
async def test_a_bad_wish_is_refused_with_a_reason(caller: Caller, fields: Json, sentence: str) -> None:
    assert sentence in await _refused(await create_project_client(caller), 400, READ_ONLY, **fields)


@pytest.mark.parametrize("body", [None, {}, {"endpoint": {}}, {"endpoint": {"type": "read_only"}}, {"endpoint": []}])
async def test_a_bad_body_is_refused(caller: Caller, body: Any) -> None:
    tree = await create_project_client(caller)
    assert await tree.expect_error(400, "POST", f"{tree.path}/endpoints", body)


async def test_the_branch_is_one_of_the_project(caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    deleted = (await tree.create_branch())["branch"]["id"]
    await tree.request_and_finish("DELETE", tree.branch_path(deleted))
    for branch_id in (str(BranchId.new()), other.main_branch_id, deleted):
        assert "branch could not be found" in await _refused(tree, 404, READ_ONLY, branch_id=branch_id)
    for branch_id in (str(BranchId.new()), other.main_branch_id, deleted):
        await tree.request("GET", f"{tree.branch_path(branch_id)}/endpoints", status=404)


async def test_a_deletion_stops_it_and_again_finds_nothing_to_do(caller: Caller) -> None:
    tree = await create_project_client(caller)
    reader = (await _created(tree, READ_ONLY))["endpoint"]["id"]
    path, activity = f"{tree.path}/endpoints/{reader}", caller.api_app.services.activity
    await activity.report("endpoints", 1, [])
    deleted = await tree.request("DELETE", path)
    assert (deleted["endpoint"]["id"], "pending_state" in deleted["endpoint"]) == (reader, False)
    assert (operation_actions(deleted), deleted["operations"][0]["endpoint_id"]) == (["suspend_compute"], reader)
    assert reader in await activity.report("endpoints", 2, [])
    assert await _listed(tree) == [tree.endpoint_id]
    assert await _listed(tree, tree.main_branch_id) == [tree.endpoint_id]
    assert await tree.request("DELETE", path, status=204) == {}
    await tree.finish_operations()
    assert await tree.request("DELETE", path, status=204) == {}
    for method, verb in (("GET", ""), ("POST", "/start"), ("POST", "/suspend"), ("POST", "/restart")):
        await tree.request(method, path + verb, status=404)
    await tree.request("PATCH", path, {"endpoint": {"name": "back"}}, status=404)
    assert (await tree.get_branch(tree.main_branch_id))["name"] == "main"


async def test_what_is_not_there_cannot_be_deleted(caller: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    for endpoint_id in (EndpointId.new(), other.endpoint_id):
        sentence = await tree.expect_error(404, "DELETE", f"{tree.path}/endpoints/{endpoint_id}")
        assert "endpoint could not be found" in sentence
    assert await _listed(other) == [other.endpoint_id]


async def test_work_in_the_way_is_423(caller: Caller) -> None:
    tree = await create_project_client(caller)
    branch_id = (await tree.begin_branch())["branch"]["id"]
    requested = {"endpoint": {"branch_id": branch_id, **READ_ONLY}}
    busy = await tree.send("POST", f"{tree.path}/endpoints", requested)
    assert (busy.status_code, busy.headers["retry-after"]) == (423, "1")
    await tree.finish_operations()
    created = await _answer(tree, 201, READ_ONLY, branch_id)
    path = f"{tree.path}/endpoints/{created['endpoint']['id']}"
    await tree.request("DELETE", path, status=423)
    await tree.request("PATCH", path, {"endpoint": {"name": "new"}}, status=423)
    await _answer(tree, 201, READ_WRITE, branch_id)  # endpoints do not block one another


async def test_an_idempotency_key_makes_one(caller: Caller) -> None:
    tree = await create_project_client(caller)
    body, headers = {"endpoint": {"branch_id": tree.main_branch_id, **READ_ONLY}}, {"Idempotency-Key": "once"}
    path = f"{tree.path}/endpoints"
    first, second = [await caller.client.post(path, json=body, headers=headers) for _ in range(2)]
    assert (first.status_code, first.json()) == (201, second.json())
    assert len(await _listed(tree)) == 2


async def test_strangers_make_none_and_a_project_key_its_own(api_app: ApiApp, caller: Caller, stranger: Caller) -> None:
    tree, other = await create_project_client(caller), await create_project_client(caller)
    outside = replace(tree, caller=stranger)
    await _answer(outside, 404, READ_ONLY)
    await outside.request("DELETE", f"{tree.path}/endpoints/{tree.endpoint_id}", status=404)
    async with api_app.client(await caller.create_key(KeyKind.PROJECT, tree.id)) as client:
        inside = replace(tree, caller=replace(caller, client=client))
        created = await _created(inside, READ_ONLY)
        await inside.request_and_finish("DELETE", f"{tree.path}/endpoints/{created['endpoint']['id']}")
        await _answer(inside, 404, READ_ONLY, other.main_branch_id)
        await inside.request("DELETE", f"{other.path}/endpoints/{other.endpoint_id}", status=404)
    assert await _listed(tree) == [tree.endpoint_id]
