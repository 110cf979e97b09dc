"""Roles and passwords made, changed and dropped with SQL: the platform follows, and never takes them back."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bough.control.platform.shutdown import stop_all_computes
from bough.domain.endpoint import EndpointState
from bough.domain.operation import OperationKind
from bough.domain.role import Role
from bough.ids import BranchId, EndpointId
from bough.operations import contents_sync
from bough.postgres.scram import scram_verifier
from engine.test_computes import require_system_15
from support.branches import kill_compute
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as made:
        yield made


async def roles(platform: Platform, made: dict[str, Any]) -> dict[str, Role]:
    async with platform.store.read() as rows:
        found = await rows.roles.list_in_branch(BranchId(made["branch"]["id"]))
    return {role.name: role for role in found}


async def read(platform: Platform, made: dict[str, Any]) -> dict[str, Role]:
    """Roles as they are known a moment after somebody was at work."""
    platform.services.activity.mark_unread([EndpointId(made["endpoints"][0]["id"])])
    await platform.run_tasks()
    await platform.run_operations()
    return await roles(platform, made)


async def verifiers(platform: Platform, made: dict[str, Any]) -> dict[str, str | None]:
    """As Postgres has them."""
    found = await platform.engine.read_compute_contents(EndpointId(made["endpoints"][0]["id"]))
    assert found is not None
    return {role.name: role.verifier for role in found.roles}


async def call(platform: Platform, made: dict[str, Any], verb: str) -> None:
    endpoint = made["endpoints"][0]
    path = f"{API}/projects/{endpoint['project_id']}/endpoints/{endpoint['id']}/{verb}"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()


async def test_a_new_role_is_a_wish_until_postgres_has_it(platform: Platform) -> None:
    made = await platform.create_project()
    before = (await roles(platform, made))["neondb_owner"]
    assert before.is_pending
    await platform.run_operations()
    after = (await roles(platform, made))["neondb_owner"]
    assert not after.is_pending
    assert await verifiers(platform, made) == {"neondb_owner": before.verifier}
    assert (await read(platform, made))["neondb_owner"] == after, "what is as it was is not written"


async def test_a_password_changed_with_sql_outlives_a_killed_compute_that_was_not_read(platform: Platform) -> None:
    made = await platform.create_ready_project()
    changed = scram_verifier("changed")
    await platform.query(made, f"alter role neondb_owner password '{changed}'")
    await kill_compute(platform, made)
    assert (await roles(platform, made))["neondb_owner"].verifier != changed, "nobody has read it yet"
    await platform.run_tasks()  # finds the crash, and asks for a start
    await platform.run_operations()
    assert await verifiers(platform, made) == {"neondb_owner": changed}
    await platform.run_tasks()
    assert (await roles(platform, made))["neondb_owner"].verifier == changed


async def test_the_stored_password_goes_with_the_verifier_it_was_for(platform: Platform) -> None:
    made = await platform.create_ready_project()
    ask = f"{API}/projects/{made['project']['id']}/connection_uri?role_name=neondb_owner&database_name=neondb"
    assert (await platform.client.get(ask)).status_code == 200
    await platform.query(made, "alter role neondb_owner password 'changed with SQL'")
    assert (await read(platform, made))["neondb_owner"].sealed_password is None
    answer = await platform.client.get(ask)
    assert answer.status_code == 412
    assert "was set with SQL" in answer.json()["message"]


async def test_roles_come_change_and_go(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await platform.query(made, "create role app login password 'x' valid until '2031-02-03 04:05:06+00'")
    found = await read(platform, made)
    assert found.keys() == {"app", "neondb_owner"}
    assert found["app"].valid_until == datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert (found["app"].sealed_password, found["app"].is_pending) == (None, False)
    assert found["app"].verifier == (await verifiers(platform, made))["app"]

    await platform.query(made, "alter role app valid until 'infinity' password null")
    after = (await read(platform, made))["app"]
    assert (after.valid_until, after.verifier) == (None, None)

    await platform.query(made, "alter role app nologin")
    assert not (await read(platform, made))["app"].can_login
    await platform.query(made, "alter role app login")
    assert (await read(platform, made))["app"].can_login
    await platform.query(made, "drop role app")
    assert (await read(platform, made)).keys() == {"neondb_owner"}


@pytest.mark.parametrize("how", ["suspended", "down"])
async def test_what_was_changed_is_read_before_the_stop(platform: Platform, how: str) -> None:
    made = await platform.create_ready_project()
    for statement in ("create role app login password 'x'", "alter role neondb_owner password 'y'"):
        await platform.query(made, statement)
    expected = await verifiers(platform, made)
    if how == "suspended":
        await call(platform, made, "suspend")
    else:
        await stop_all_computes(platform.store, platform.engine)
    assert (await platform.get_endpoint(made)).state is EndpointState.IDLE
    assert {name: role.verifier for name, role in (await roles(platform, made)).items()} == expected
    await call(platform, made, "start")
    assert await verifiers(platform, made) == expected


async def test_a_dropped_role_does_not_come_back_with_the_next_start(platform: Platform) -> None:
    made = await platform.create_ready_project()
    await platform.query(made, "create role app login password 'x'")
    await read(platform, made)
    await platform.query(made, "drop role app")
    await kill_compute(platform, made)
    await platform.run_tasks()
    await platform.run_operations()
    assert (await verifiers(platform, made)).keys() == {"neondb_owner"}
    await platform.run_tasks()
    assert (await roles(platform, made)).keys() == {"neondb_owner"}


async def test_only_those_that_were_in_use_are_asked(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await platform.create_ready_project()
    await platform.run_tasks()
    asked: list[EndpointId] = []
    ask = platform.engine.read_compute_contents

    async def watched(endpoint: EndpointId, *given: Any) -> Any:
        asked.append(endpoint)
        return await ask(endpoint, *given)

    monkeypatch.setattr(platform.engine, "read_compute_contents", watched)
    await platform.run_tasks()
    assert asked == []
    await platform.inner.gateway_api.wakes.wake(EndpointId(made["endpoints"][0]["id"]))
    await platform.run_tasks()
    assert len(asked) == 1


async def test_a_wish_is_not_taken_back_by_a_look_that_is_older(platform: Platform) -> None:
    """The API changed the role between the look and its writing: what was seen is not true any more."""
    made = await platform.create_ready_project()
    await platform.query(made, "alter role neondb_owner password 'changed with SQL'")
    endpoint = await platform.get_endpoint(made)
    seen = await contents_sync.inspect_contents(platform.store, platform.engine, endpoint)
    assert seen is not None
    wished = replace((await roles(platform, made))["neondb_owner"], verifier=scram_verifier("wished"), is_pending=True)
    async with platform.store.transaction() as rows:
        await rows.roles.save(wished)
    async with platform.store.transaction() as rows:
        await contents_sync.sync_rows(rows, seen)
    assert (await read(platform, made))["neondb_owner"] == wished, "nor by one that is not"
    await call(platform, made, "restart")
    assert await verifiers(platform, made) == {"neondb_owner": wished.verifier}
    assert not (await roles(platform, made))["neondb_owner"].is_pending


async def test_on_an_older_version_a_role_made_with_sql_is_let_in_when_it_is_seen(platform: Platform) -> None:
    """There the server's files name every role. Only a superuser can make one, so it is made as ours."""
    require_system_15()
    made = await platform.create_ready_project(pg_version=15)
    endpoint = made["endpoints"][0]["id"]
    async with platform.connect(endpoint, "bough_admin", "postgres") as ours:
        await ours.execute("create role app login password 'x'")
    await read(platform, made)
    last = (await platform.list_operations(made["project"]["id"]))[-1]
    assert last.kind is OperationKind.APPLY_CONFIG
    async with platform.connect(endpoint, "app", "neondb") as client:
        assert await client.fetchval("select current_user::text") == "app"
