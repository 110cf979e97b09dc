"""Prepared databases: kept while there is demand, assigned once, and deleted when there is none."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio

from bough import clock
from bough.domain.endpoint import EndpointState
from bough.domain.project import SUSPEND_DEFAULT
from bough.ids import EndpointId, ProjectId
from bough.store.prepared_databases import PreparedDatabase
from bough.tasks.prepare_instant_databases import DEMAND_WINDOW, PrepareInstantDatabases
from instant.instant_app import InstantApp
from support.platform import Platform


class Keeper:
    """Prepares databases on a shared platform."""

    def __init__(self, platform: Platform) -> None:
        self.app = InstantApp(platform, instant_pool=1)
        self.databases = PrepareInstantDatabases(self.app.services)

    async def waiting(self) -> list[PreparedDatabase]:
        async with self.app.platform.store.read() as rows:
            return await rows.prepared_databases.list_all()

    async def prepares(self) -> PreparedDatabase:
        """Waits for a running one."""
        await self.databases.run()
        await self.app.platform.run_operations()
        [prepared] = await self.waiting()
        assert prepared.state is EndpointState.ACTIVE
        return prepared

    async def tidies(self) -> None:
        nothing = PrepareInstantDatabases(InstantApp(self.app.platform, instant_pool=0).services)
        while await self.waiting():
            await nothing.run()
            await self.app.platform.run_operations()


@pytest_asyncio.fixture(loop_scope="session")
async def prepared_databases(shared_platform: Platform) -> AsyncIterator[Keeper]:
    created = Keeper(shared_platform)
    await created.tidies()
    yield created
    await created.tidies()


@pytest.mark.usefixtures("instant_database")
async def test_a_call_hands_out_the_one_that_was_prepared_as_if_it_were_new(prepared_databases: Keeper) -> None:
    prepared = await prepared_databases.prepares()
    before = clock.now()
    created = await prepared_databases.app.create()
    assert created["neon_project_id"] == prepared.project_id
    assert await prepared_databases.waiting() == []
    assert await prepared_databases.app.fetch_value(created, "select current_user") == "neondb_owner"
    async with prepared_databases.app.platform.store.read() as rows:
        project = await rows.projects.get(prepared.project_id)
        endpoint = await rows.endpoints.get(prepared.endpoint_id)
    assert project is not None
    assert project.created_at >= before
    assert endpoint is not None
    assert endpoint.suspend_timeout_seconds == SUSPEND_DEFAULT
    assert (await prepared_databases.app.get(created["id"])).json() == created


@pytest.mark.usefixtures("instant_database")
async def test_one_that_waits_is_handed_out_once(prepared_databases: Keeper) -> None:
    prepared = await prepared_databases.prepares()
    created = await asyncio.gather(*(prepared_databases.app.create() for _ in range(3)))
    projects = [each["neon_project_id"] for each in created]
    assert len(set(projects)) == 3
    assert projects.count(prepared.project_id) == 1


@pytest.mark.usefixtures("instant_database")
async def test_with_logical_replication_a_new_one_is_made(prepared_databases: Keeper) -> None:
    prepared = await prepared_databases.prepares()
    created = await prepared_databases.app.create(enable_logical_replication=True)
    assert created["neon_project_id"] != prepared.project_id
    assert [each.project_id for each in await prepared_databases.waiting()] == [prepared.project_id]


@pytest.mark.usefixtures("instant_database")
async def test_an_id_that_is_taken_costs_none(prepared_databases: Keeper) -> None:
    created = await prepared_databases.app.create()
    prepared = await prepared_databases.prepares()
    refused = await prepared_databases.app.post(f"/api/v1/database/{created['id']}?referrer=tests", json={})
    assert refused.status_code == 400
    assert [each.project_id for each in await prepared_databases.waiting()] == [prepared.project_id]


@pytest.mark.usefixtures("instant_database")
async def test_an_hour_after_the_last_call_none_is_kept(
    prepared_databases: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = await prepared_databases.prepares()
    with monkeypatch.context() as later:
        moment = clock.now() + DEMAND_WINDOW + timedelta(minutes=1)
        later.setattr(clock, "now", lambda: moment)
        await prepared_databases.databases.run()
    assert await prepared_databases.waiting() == []
    assert not await _is_living(prepared_databases.app, prepared.project_id)


@pytest.mark.usefixtures("instant_database")
async def test_one_that_fell_asleep_is_replaced(prepared_databases: Keeper) -> None:
    prepared = await prepared_databases.prepares()
    async with prepared_databases.app.platform.store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(prepared.endpoint_id))
        assert endpoint is not None
        await rows.endpoints.save(replace(endpoint, state=EndpointState.IDLE))
    await prepared_databases.databases.run()
    assert await prepared_databases.waiting() == []
    prepared_databases.databases._pause_until = 0.0
    assert (await prepared_databases.prepares()).project_id != prepared.project_id


@pytest.mark.usefixtures("instant_database")
async def test_on_a_full_machine_none_is_prepared(prepared_databases: Keeper) -> None:
    full = InstantApp(
        prepared_databases.app.platform, capabilities={"creation_blocked_reason": "Full."}, instant_pool=1
    )
    await PrepareInstantDatabases(full.services).run()
    assert await prepared_databases.waiting() == []


async def _is_living(app: InstantApp, project_id: ProjectId) -> bool:
    async with app.platform.store.read() as rows:
        project = await rows.projects.get(project_id)
    return project is not None and project.deleted_at is None
