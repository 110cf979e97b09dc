"""Changing an endpoint: pooling, size, settings, suspend timeout, and disabling it."""

import asyncio
from typing import Any

import httpx2
import pytest

from api.test_endpoints import has_endpoint
from bough.domain.api_key import KeyKind
from bough.domain.endpoint import EndpointState
from bough.ids import EndpointId
from support.api_app import ApiApp
from support.api_client import Caller, Json

SETTINGS = {"pool_mode": "transaction", "default_pool_size": "5", "query_wait_timeout": "2.5"}


async def _patch(caller: Caller, path: str, **fields: Any) -> httpx2.Response:
    return await caller.client.patch(path, json={"endpoint": fields})


async def _shown(caller: Caller, path: str) -> Json:
    shown: Json = (await caller.client.get(path)).json()["endpoint"]
    return shown


async def _changed(caller: Caller, path: str, **fields: Any) -> Json:
    response = await _patch(caller, path, **fields)
    assert response.status_code == 200, response.text
    changed: Json = response.json()
    assert changed == {"endpoint": await _shown(caller, path), "operations": []}
    return changed["endpoint"]  # type: ignore[no-any-return]


async def _refused(caller: Caller, path: str, **fields: Any) -> str:
    """Returns the error message, and checks that nothing changed."""
    before = await _shown(caller, path)
    response = await _patch(caller, path, **fields)
    assert response.status_code == 400, response.text
    assert await _shown(caller, path) == before
    return str(response.json()["message"])


@pytest.mark.parametrize("state", list(EndpointState))
async def test_what_is_named_changes_and_the_rest_stays(caller: Caller, state: EndpointState) -> None:
    path = await has_endpoint(caller, state, settings={"pg_settings": {"work_mem": "8MB"}})
    before = await _shown(caller, path)
    assert (before["pooler_enabled"], before["pooler_mode"]) == (False, "transaction")

    on = await _changed(caller, path, pooler_enabled=True, pooler_mode="transaction")
    assert on["updated_at"] > before["updated_at"]
    assert on == {**before, "pooler_enabled": True, "updated_at": on["updated_at"]}

    after = await _changed(caller, path, settings={"pgbouncer_settings": SETTINGS})
    assert after["settings"] == {**before["settings"], "pgbouncer_settings": SETTINGS}
    assert after["pooler_enabled"]

    assert not (await _changed(caller, path, pooler_enabled=False))["pooler_enabled"]
    assert (await _shown(caller, path))["settings"] == after["settings"]


async def test_the_settings_of_the_pooler_are_replaced_as_a_whole(caller: Caller) -> None:
    path = await has_endpoint(caller, settings={"pgbouncer_settings": SETTINGS})
    for settings in ({"server_lifetime": "60"}, {}):
        after = await _changed(caller, path, settings={"pgbouncer_settings": settings})
        assert after["settings"] == {"pgbouncer_settings": settings}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"settings": {}},
        {"settings": None},
        {"pooler_enabled": None, "pooler_mode": None, "settings": {"pgbouncer_settings": None}, "disabled": None},
    ],
)
async def test_who_says_nothing_changes_nothing_but_the_moment(caller: Caller, fields: Json) -> None:
    path = await has_endpoint(caller, pooler_enabled=True, settings={"pgbouncer_settings": SETTINGS})
    before = await _shown(caller, path)
    after = await _changed(caller, path, **fields)
    assert {**after, "updated_at": None} == {**before, "updated_at": None}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("autoscaling_limit_min_cu", 0.5),
        ("autoscaling_limit_max_cu", 2),
        ("provisioner", "k8s-pod"),
        ("passwordless_access", False),
        ("suspend_timeout_seconds", 60),
        ("suspend_timeout_seconds", -1),
        ("name", "mine"),
        ("settings", {"pg_settings": {"work_mem": "9MB"}}),
    ],
)
@pytest.mark.parametrize("state", list(EndpointState))
async def test_each_field_changes_and_a_running_compute_hears_of_what_concerns_it(
    caller: Caller, state: EndpointState, name: str, value: Any
) -> None:
    path = await has_endpoint(caller, state, max_cu=1.0)
    response = await _patch(caller, path, **{name: value})
    assert response.status_code == 200, response.text
    assert response.json()["endpoint"][name] == value
    assert (await _shown(caller, path))[name] == value
    concerns = name.startswith("autoscaling") or name == "settings"
    heard = ["apply_config"] if concerns and state is EndpointState.ACTIVE else []
    assert [operation["action"] for operation in response.json()["operations"]] == heard


async def test_disabling_stops_it_and_enabling_does_not_start_it(caller: Caller) -> None:
    path = await has_endpoint(caller, EndpointState.ACTIVE)
    off = (await _patch(caller, path, disabled=True)).json()
    assert (off["endpoint"]["disabled"], off["endpoint"]["pending_state"]) == (True, "idle")
    assert [operation["action"] for operation in off["operations"]] == ["suspend_compute"]
    await caller.finish_operations(path.split("/")[2])
    assert (await caller.client.post(f"{path}/start")).status_code == 412
    on = (await _patch(caller, path, disabled=False)).json()
    assert (on["endpoint"]["disabled"], on["operations"]) == (False, [])


async def test_an_endpoint_stays_with_its_branch(caller: Caller) -> None:
    path = await has_endpoint(caller)
    own = (await _shown(caller, path))["branch_id"]
    assert "stays with its branch" in await _refused(caller, path, branch_id="br-other-12345678", name="other")
    assert (await _patch(caller, path, branch_id=own, name="same")).status_code == 200


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [
        ({"autoscaling_limit_min_cu": 4}, (4, 4)),
        ({"autoscaling_limit_max_cu": 0.25}, (0.25, 0.25)),
        ({"autoscaling_limit_min_cu": 0.25, "autoscaling_limit_max_cu": 8}, (0.25, 8)),
    ],
)
async def test_one_limit_takes_the_other_with_it(caller: Caller, fields: Json, sizes: tuple[float, float]) -> None:
    path = await has_endpoint(caller, min_cu=1.0, max_cu=2.0)
    shown = (await _patch(caller, path, **fields)).json()["endpoint"]
    assert (shown["autoscaling_limit_min_cu"], shown["autoscaling_limit_max_cu"]) == sizes


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"autoscaling_limit_min_cu": 0.1}, "autoscaling_limit_min_cu"),
        ({"autoscaling_limit_min_cu": 4, "autoscaling_limit_max_cu": 2}, "is larger than autoscaling_limit_max_cu"),
        ({"autoscaling_limit_max_cu": 1024}, "exceeds the 64 CU that the plan allows"),
        ({"suspend_timeout_seconds": 59}, "use 0 for the default, -1 for never, or 60 to 604800"),
        ({"suspend_timeout_seconds": 604_801}, "suspend_timeout_seconds"),
        ({"disabled": "no"}, "endpoint.disabled"),
        ({"name": ""}, "endpoint.name"),
        ({"name": "x" * 65}, "endpoint.name"),
        ({"settings": {"pg_settings": {"work_mem": "a lot"}}}, "work_mem"),
        ({"settings": {"pg_settings": {"work_mum": "8MB"}}}, "work_mem"),
        ({"settings": {"pg_settings": {"fsync": "off"}}}, "fsync"),
        ({"settings": {"preload_libraries": {"enabled_libraries": ["x"]}}}, "cannot be preloaded"),
        ({"pooler_mode": "session"}, "pooler_mode is 'session': only transaction is supported."),
        ({"pooler_mode": ""}, "pooler_mode is '': only transaction"),
        ({"pooler_mode": 7}, "endpoint.pooler_mode"),
        ({"pooler_enabled": "yes"}, "endpoint.pooler_enabled"),
        ({"pooler_enabled": 1}, "endpoint.pooler_enabled"),
        ({"settings": []}, "endpoint.settings"),
        ({"settings": {"pgbouncer_settings": []}}, "pgbouncer_settings"),
        ({"settings": {"pgbouncer_settings": {"default_pool_size": 5}}}, "default_pool_size"),
        ({"settings": {"pgbouncer_settings": {"default_pool_size": "10001"}}}, "a whole number from 1 to 10000"),
        ({"settings": {"pgbouncer_settings": {"pool_mode": "statement"}}}, "only transaction is supported"),
        (
            {"settings": {"pgbouncer_settings": {**SETTINGS, "max_client_conn": "9"}}},
            "is not supported. Supported settings",
        ),
        ({"settings": {"pgbouncer_settings": {"max_prepared_statements": "0"}}}, "cannot be disabled"),
    ],
)
async def test_a_bad_change_is_refused_with_a_reason_and_whole(caller: Caller, fields: Json, sentence: str) -> None:
    path = await has_endpoint(caller)
    assert sentence in await _refused(caller, path, **{"pooler_enabled": True, **fields})


@pytest.mark.parametrize("bad", ["\\u0000", "\\ud800", "\\udc00\\ud800"])
@pytest.mark.parametrize(
    "fields",
    [
        '{"pooler_mode": "@"}',
        '{"@": 1}',
        '{"settings": {"@": 1}}',
        '{"settings": {"pgbouncer_settings": {"@": "1"}}}',
        '{"settings": {"pgbouncer_settings": {"pool_mode": "@"}}}',
    ],
)
async def test_text_that_no_database_can_hold_is_refused(caller: Caller, fields: str, bad: str) -> None:
    path = await has_endpoint(caller)
    content = ('{"endpoint": ' + fields.replace("@", bad) + "}").encode()
    response = await caller.client.patch(path, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 400, response.text


async def test_gateways_are_told_to_forget_what_they_know(caller: Caller) -> None:
    path = await has_endpoint(caller)
    endpoint, activity = EndpointId(path.rpartition("/")[2]), caller.api_app.services.activity
    await activity.report("changes", 1, [])
    await _refused(caller, path, pooler_mode="session")
    assert endpoint not in await activity.report("changes", 2, [])
    await _changed(caller, path, pooler_enabled=True)
    assert endpoint in await activity.report("changes", 3, [])
    assert endpoint not in await activity.report("changes", 4, [])


async def test_a_stranger_and_a_wrong_id_get_the_same_answer(caller: Caller, stranger: Caller) -> None:
    path = await has_endpoint(caller)
    other = await has_endpoint(caller)
    assert (await _patch(stranger, path, pooler_enabled=True)).status_code == 404
    for wrong in (str(EndpointId.new()), other.rpartition("/")[2]):
        assert (await _patch(caller, f"{path.rpartition('/')[0]}/{wrong}", pooler_enabled=True)).status_code == 404
    assert not (await _shown(caller, path))["pooler_enabled"]
    assert not (await _shown(caller, other))["pooler_enabled"]


async def test_a_project_key_changes_its_own(api_app: ApiApp, caller: Caller) -> None:
    path, other = await has_endpoint(caller), await has_endpoint(caller)
    async with api_app.client(await caller.create_key(KeyKind.PROJECT, path.split("/")[2])) as client:
        assert (await client.patch(path, json={"endpoint": {"pooler_enabled": True}})).status_code == 200
        assert (await client.patch(other, json={"endpoint": {"pooler_enabled": True}})).status_code == 404


async def test_work_that_is_in_the_way_is_423(caller: Caller) -> None:
    path = await has_endpoint(caller)
    assert (await caller.client.post(f"{path}/start")).status_code == 200
    assert (await _patch(caller, path, pooler_enabled=True)).status_code == 423
    await caller.finish_operations(path.split("/")[2])
    assert (await _changed(caller, path, pooler_enabled=True))["pending_state"] == "active"


async def test_changes_at_the_same_time_lose_nothing(caller: Caller) -> None:
    path = await has_endpoint(caller)
    changes: list[Json] = [{"pooler_enabled": True}, {"settings": {"pgbouncer_settings": SETTINGS}}]
    answers = await asyncio.gather(*(_patch(caller, path, **each) for each in changes))
    assert [response.status_code for response in answers] == [200] * 2
    shown = await _shown(caller, path)
    assert (shown["pooler_enabled"], shown["settings"]) == (True, {"pgbouncer_settings": SETTINGS})
