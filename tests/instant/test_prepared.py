"""Databases that wait for somebody: kept while there is demand, handed out once, gone when nobody asks."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio

import world
from bough import clock
from bough.control.prepared_databases import IN_DEMAND, PreparedDatabases
from bough.domain.endpoint import EndpointState
from bough.domain.project import SUSPEND_DEFAULT
from bough.ids import EndpointId, ProjectId
from bough.store.prepared_databases import Prepared
from instant.front import Front


class Keeper:
    """Prepares databases on a platform that others use as well."""

    def __init__(self, platform: world.Platform) -> None:
        self.front = Front(platform, instant_pool=1)
        self.databases = PreparedDatabases(self.front.parts)

    async def waiting(self) -> list[Prepared]:
        async with self.front.platform.store.read() as rows:
            return await rows.prepared_databases.all()

    async def prepares(self) -> Prepared:
        """One that runs."""
        await self.databases.keep()
        await self.front.platform.settle()
        [prepared] = await self.waiting()
        assert prepared.state is EndpointState.ACTIVE
        return prepared

    async def tidies(self) -> None:
        nothing = PreparedDatabases(Front(self.front.platform, instant_pool=0).parts)
        while await self.waiting():
            await nothing.keep()
            await self.front.platform.settle()


@pytest_asyncio.fixture(loop_scope="session")
async def keeper(shared_platform: world.Platform) -> AsyncIterator[Keeper]:
    made = Keeper(shared_platform)
    await made.tidies()
    yield made
    await made.tidies()


@pytest.mark.usefixtures("made")
async def test_a_call_hands_out_the_one_that_was_prepared_as_if_it_were_new(keeper: Keeper) -> None:
    prepared = await keeper.prepares()
    before = clock.now()
    given = await keeper.front.create()
    assert given["neon_project_id"] == prepared.project_id
    assert await keeper.waiting() == []
    assert await keeper.front.value(given, "select current_user") == "neondb_owner"
    async with keeper.front.platform.store.read() as rows:
        project = await rows.projects.get(prepared.project_id)
        endpoint = await rows.endpoints.get(prepared.endpoint_id)
    assert project is not None
    assert project.created_at >= before
    assert endpoint is not None
    assert endpoint.suspend_timeout_seconds == SUSPEND_DEFAULT
    assert (await keeper.front.get(given["id"])).json() == given


@pytest.mark.usefixtures("made")
async def test_one_that_waits_is_handed_out_once(keeper: Keeper) -> None:
    prepared = await keeper.prepares()
    given = await asyncio.gather(*(keeper.front.create() for _ in range(3)))
    projects = [each["neon_project_id"] for each in given]
    assert len(set(projects)) == 3
    assert projects.count(prepared.project_id) == 1


@pytest.mark.usefixtures("made")
async def test_with_logical_replication_a_new_one_is_made(keeper: Keeper) -> None:
    prepared = await keeper.prepares()
    given = await keeper.front.create(enable_logical_replication=True)
    assert given["neon_project_id"] != prepared.project_id
    assert [each.project_id for each in await keeper.waiting()] == [prepared.project_id]


@pytest.mark.usefixtures("made")
async def test_an_id_that_is_taken_costs_none(keeper: Keeper) -> None:
    given = await keeper.front.create()
    prepared = await keeper.prepares()
    refused = await keeper.front.post(f"/api/v1/database/{given['id']}?referrer=tests", json={})
    assert refused.status_code == 400
    assert [each.project_id for each in await keeper.waiting()] == [prepared.project_id]


@pytest.mark.usefixtures("made")
async def test_an_hour_after_the_last_call_none_is_kept(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = await keeper.prepares()
    with monkeypatch.context() as later:
        moment = clock.now() + IN_DEMAND + timedelta(minutes=1)
        later.setattr(clock, "now", lambda: moment)
        await keeper.databases.keep()
    assert await keeper.waiting() == []
    assert not await _is_living(keeper.front, prepared.project_id)


@pytest.mark.usefixtures("made")
async def test_one_that_fell_asleep_is_replaced(keeper: Keeper) -> None:
    prepared = await keeper.prepares()
    async with keeper.front.platform.store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(prepared.endpoint_id))
        assert endpoint is not None
        await rows.endpoints.save(replace(endpoint, state=EndpointState.IDLE))
    await keeper.databases.keep()
    assert await keeper.waiting() == []
    keeper.databases._pause_until = 0.0
    assert (await keeper.prepares()).project_id != prepared.project_id


@pytest.mark.usefixtures("made")
async def test_on_a_full_machine_none_is_prepared(keeper: Keeper) -> None:
    full = Front(keeper.front.platform, able={"refuses_new": "Full."}, instant_pool=1)
    await PreparedDatabases(full.parts).keep()
    assert await keeper.waiting() == []


async def _is_living(front: Front, project_id: ProjectId) -> bool:
    async with front.platform.store.read() as rows:
        project = await rows.projects.get(project_id)
    return project is not None and project.deleted_at is None
