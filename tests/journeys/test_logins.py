"""Roles and passwords that are created, changed and dropped with SQL. The platform adopts and never reverts them."""

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
from bough.operations import contents_inspection, contents_sync
from bough.postgres.scram import scram_verifier
from engine.test_computes import require_system_15
from support.branches import kill_compute
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as opened:
        yield opened


async def get_roles(platform: Platform, created: dict[str, Any]) -> dict[str, Role]:
    async with platform.store.read() as rows:
        found = await rows.roles.list_in_branch(BranchId(created["branch"]["id"]))
    return {role.name: role for role in found}


async def read_roles_after_sync(platform: Platform, created: dict[str, Any]) -> dict[str, Role]:
    """Returns the roles of the store after it was synchronized with a compute that had clients."""
    platform.services.activity.mark_unread([EndpointId(created["endpoints"][0]["id"])])
    await platform.run_tasks()
    await platform.run_operations()
    return await get_roles(platform, created)


async def read_verifiers(platform: Platform, created: dict[str, Any]) -> dict[str, str | None]:
    """Returns the password verifiers of Postgres."""
    found = await platform.engine.read_compute_contents(EndpointId(created["endpoints"][0]["id"]))
    assert found is not None
    return {role.name: role.verifier for role in found.roles}


async def run_endpoint_action(platform: Platform, created: dict[str, Any], action: str) -> None:
    endpoint = created["endpoints"][0]
    path = f"{API}/projects/{endpoint['project_id']}/endpoints/{endpoint['id']}/{action}"
    assert (await platform.client.post(path)).status_code == 200
    await platform.run_operations()


async def test_a_new_role_is_a_wish_until_postgres_has_it(platform: Platform) -> None:
    created = await platform.create_project()
    pending = (await get_roles(platform, created))["neondb_owner"]
    assert pending.is_pending
    await platform.run_operations()
    after = (await get_roles(platform, created))["neondb_owner"]
    assert not after.is_pending
    assert await read_verifiers(platform, created) == {"neondb_owner": pending.verifier}
    assert (await read_roles_after_sync(platform, created))["neondb_owner"] == after, "unchanged roles are not written"


async def test_a_password_changed_with_sql_outlives_a_killed_compute_that_was_not_read(platform: Platform) -> None:
    created = await platform.create_ready_project()
    changed = scram_verifier("changed")
    await platform.query(created, f"alter role neondb_owner password '{changed}'")
    await kill_compute(platform, created)
    assert (await get_roles(platform, created))["neondb_owner"].verifier != changed, (
        "the store does not know the change yet"
    )
    await platform.run_tasks()  # detects the crash and creates a start operation
    await platform.run_operations()
    assert await read_verifiers(platform, created) == {"neondb_owner": changed}
    await platform.run_tasks()
    assert (await get_roles(platform, created))["neondb_owner"].verifier == changed


async def test_the_stored_password_goes_with_the_verifier_it_was_for(platform: Platform) -> None:
    created = await platform.create_ready_project()
    uri_path = f"{API}/projects/{created['project']['id']}/connection_uri?role_name=neondb_owner&database_name=neondb"
    assert (await platform.client.get(uri_path)).status_code == 200
    await platform.query(created, "alter role neondb_owner password 'changed with SQL'")
    assert (await read_roles_after_sync(platform, created))["neondb_owner"].sealed_password is None
    answer = await platform.client.get(uri_path)
    assert answer.status_code == 412
    assert "was set with SQL" in answer.json()["message"]


async def test_roles_come_change_and_go(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create role app login password 'x' valid until '2031-02-03 04:05:06+00'")
    found = await read_roles_after_sync(platform, created)
    assert found.keys() == {"app", "neondb_owner"}
    assert found["app"].valid_until == datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert (found["app"].sealed_password, found["app"].is_pending) == (None, False)
    assert found["app"].verifier == (await read_verifiers(platform, created))["app"]

    await platform.query(created, "alter role app valid until 'infinity' password null")
    after = (await read_roles_after_sync(platform, created))["app"]
    assert (after.valid_until, after.verifier) == (None, None)

    await platform.query(created, "alter role app nologin")
    assert not (await read_roles_after_sync(platform, created))["app"].can_login
    await platform.query(created, "alter role app login")
    assert (await read_roles_after_sync(platform, created))["app"].can_login
    await platform.query(created, "drop role app")
    assert (await read_roles_after_sync(platform, created)).keys() == {"neondb_owner"}


@pytest.mark.parametrize("how", ["suspended", "down"])
async def test_what_was_changed_is_read_before_the_stop(platform: Platform, how: str) -> None:
    created = await platform.create_ready_project()
    for statement in ("create role app login password 'x'", "alter role neondb_owner password 'y'"):
        await platform.query(created, statement)
    expected = await read_verifiers(platform, created)
    if how == "suspended":
        await run_endpoint_action(platform, created, "suspend")
    else:
        await stop_all_computes(platform.store, platform.engine)
    assert (await platform.get_endpoint(created)).state is EndpointState.IDLE
    assert {name: role.verifier for name, role in (await get_roles(platform, created)).items()} == expected
    await run_endpoint_action(platform, created, "start")
    assert await read_verifiers(platform, created) == expected


async def test_a_dropped_role_does_not_come_back_with_the_next_start(platform: Platform) -> None:
    created = await platform.create_ready_project()
    await platform.query(created, "create role app login password 'x'")
    await read_roles_after_sync(platform, created)
    await platform.query(created, "drop role app")
    await kill_compute(platform, created)
    await platform.run_tasks()
    await platform.run_operations()
    assert (await read_verifiers(platform, created)).keys() == {"neondb_owner"}
    await platform.run_tasks()
    assert (await get_roles(platform, created)).keys() == {"neondb_owner"}


async def test_only_those_that_were_in_use_are_asked(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await platform.create_ready_project()
    await platform.run_tasks()
    inspected: list[EndpointId] = []
    read_contents = platform.engine.read_compute_contents

    async def read_and_record(endpoint: EndpointId, *arguments: Any) -> Any:
        inspected.append(endpoint)
        return await read_contents(endpoint, *arguments)

    monkeypatch.setattr(platform.engine, "read_compute_contents", read_and_record)
    await platform.run_tasks()
    assert inspected == []
    await platform.inner.gateway_api.wakes.wake(EndpointId(created["endpoints"][0]["id"]))
    await platform.run_tasks()
    assert len(inspected) == 1


async def test_a_wish_is_not_taken_back_by_a_look_that_is_older(platform: Platform) -> None:
    """The API changes the role after the inspection and before its result is stored: the result is outdated."""
    created = await platform.create_ready_project()
    await platform.query(created, "alter role neondb_owner password 'changed with SQL'")
    endpoint = await platform.get_endpoint(created)
    contents = await contents_inspection.inspect_contents(platform.store, platform.engine, endpoint)
    assert contents is not None
    pending_role = replace(
        (await get_roles(platform, created))["neondb_owner"], verifier=scram_verifier("from the API"), is_pending=True
    )
    async with platform.store.transaction() as rows:
        await rows.roles.save(pending_role)
    async with platform.store.transaction() as rows:
        await contents_sync.sync_rows(rows, contents)
    assert (await read_roles_after_sync(platform, created))["neondb_owner"] == pending_role, (
        "a later inspection does not replace it either"
    )
    await run_endpoint_action(platform, created, "restart")
    assert await read_verifiers(platform, created) == {"neondb_owner": pending_role.verifier}
    assert not (await get_roles(platform, created))["neondb_owner"].is_pending


async def test_on_an_older_version_a_role_made_with_sql_is_let_in_when_it_is_seen(platform: Platform) -> None:
    """On Postgres 15 pg_hba.conf lists every role, and only a superuser can create roles."""
    require_system_15()
    created = await platform.create_ready_project(pg_version=15)
    endpoint = created["endpoints"][0]["id"]
    async with platform.connect(endpoint, "bough_admin", "postgres") as admin:
        await admin.execute("create role app login password 'x'")
    await read_roles_after_sync(platform, created)
    last = (await platform.list_operations(created["project"]["id"]))[-1]
    assert last.kind is OperationKind.APPLY_CONFIG
    async with platform.connect(endpoint, "app", "neondb") as client:
        assert await client.fetchval("select current_user::text") == "app"
