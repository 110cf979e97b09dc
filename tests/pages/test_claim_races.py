"""Concurrent claims of one database: exactly one succeeds, in both back ends of the store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from bough.config import DEFAULT_PLANS
from bough.control.instant.claims import begin_claim, complete_claim
from bough.control.people.organizations import create_organization
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantDatabase, InstantStatus
from bough.domain.user import User
from bough.errors import Conflict
from bough.ids import InstantId
from bough.operations.actions import ALL_ACTIONS
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.store.audit import AuditQuery
from bough.store.instant_databases import InstantDatabases
from bough.store.store import Store
from pages.instant_databases import (
    ClaimableDatabase,
    claim_database,
    create_instant_database,
    get_personal_organization,
)
from support.pages_app import PagesApp
from support.platform import Platform
from support.postgres import PostgresServer
from support.stores import BACKENDS, open_store


@pytest_asyncio.fixture(params=BACKENDS, scope="module", loop_scope="session")
async def pages_app_on_store(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    shared_platform: Platform,
    postgres_server: PostgresServer,
) -> AsyncIterator[PagesApp]:
    """The pages with each kind of store."""
    async with open_store(request.param, tmp_path_factory.mktemp("store"), postgres_server) as store:
        yield _make_app(shared_platform, store)


def _make_app(platform: Platform, store: Store, **changes: Any) -> PagesApp:
    app = PagesApp(platform, **changes)
    app.services = replace(app.services, store=store, queue=OperationQueue(store, Events(), ALL_ACTIONS, 5))
    return app


@pytest.fixture
def slow_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delays each save, so that concurrent claims could use outdated rows."""
    save = InstantDatabases.save

    async def delayed_save(rows: InstantDatabases, database: InstantDatabase) -> None:
        await asyncio.sleep(0.05)
        await save(rows, database)

    monkeypatch.setattr(InstantDatabases, "save", delayed_save)


async def _run_all(*claims: Awaitable[None]) -> list[BaseException | None]:
    """Returns the error of each; None for success."""
    results = await asyncio.gather(*claims, return_exceptions=True)
    assert all(result is None or isinstance(result, Conflict) for result in results), results
    return results


@pytest.mark.usefixtures("slow_saves")
async def test_of_two_who_begin_at_once_one_does_and_the_other_is_told(pages_app_on_store: PagesApp) -> None:
    created, people = (
        await create_instant_database(pages_app_on_store.services),
        [await pages_app_on_store.create_user() for _ in range(2)],
    )
    contexts = [await pages_app_on_store.create_context(user) for user in people]
    results = await _run_all(*(begin_claim(each, created.id) for each in contexts))
    assert sum(result is None for result in results) == 1
    assert "Another user is claiming" in str(next(filter(None, results)))


async def test_of_two_who_confirm_at_once_one_gets_it(pages_app_on_store: PagesApp) -> None:
    """The first claim expires just when the second starts."""
    created, first, second = (
        await create_instant_database(pages_app_on_store.services),
        await pages_app_on_store.create_user(),
        await pages_app_on_store.create_user(),
    )
    personal_org_ids = [(await get_personal_organization(pages_app_on_store, user)).id for user in (first, second)]
    await begin_claim(await pages_app_on_store.create_context(first), created.id)
    row = await created.get_row()
    await created.update_row(claiming_until=row.created_at)
    attempts = [
        _begin_and_complete(pages_app_on_store, second, created.id),
        complete_claim(await pages_app_on_store.create_context(first), created.id, personal_org_ids[0]),
    ]
    results = await _run_all(*attempts)
    assert [result is None for result in results] == [True, False]
    assert (await created.get_project()).org_id == personal_org_ids[1]
    assert (await created.get_details()).status is InstantStatus.CLAIMED


@pytest.mark.usefixtures("slow_saves")
async def test_of_many_who_claim_it_whole_exactly_one_has_it_in_the_end(pages_app_on_store: PagesApp) -> None:
    created = await create_instant_database(pages_app_on_store.services)
    people = [await pages_app_on_store.create_user() for _ in range(8)]
    results = await _run_all(*(_begin_and_complete(pages_app_on_store, user, created.id) for user in people))
    winners = [user for user, result in zip(people, results, strict=True) if result is None]
    assert len(winners) == 1
    assert (await created.get_project()).org_id == (await get_personal_organization(pages_app_on_store, winners[0])).id
    await _check_owns_nothing(pages_app_on_store, created, [user for user in people if user is not winners[0]])


@pytest.mark.usefixtures("slow_saves")
async def test_one_person_who_confirms_twice_at_once_has_it_in_one_place(pages_app_on_store: PagesApp) -> None:
    created, user = await create_instant_database(pages_app_on_store.services), await pages_app_on_store.create_user()
    personal_org = await get_personal_organization(pages_app_on_store, user)
    team = await create_organization(await pages_app_on_store.create_context(user), "Team")
    await begin_claim(await pages_app_on_store.create_context(user), created.id)
    confirmations = [
        complete_claim(await pages_app_on_store.create_context(user), created.id, each.id)
        for each in (personal_org, team)
    ]
    assert await _run_all(*confirmations) == [None, None]
    assert (await created.get_project()).org_id in (personal_org.id, team.id)
    async with pages_app_on_store.services.store.read() as rows:
        assert (
            await rows.projects.count_in_organization(personal_org.id)
            + await rows.projects.count_in_organization(team.id)
            == 1
        )
        lines = await rows.audit.page(AuditQuery(project_id=created.project_id), 100, None)
    org_ids = [line.org_id for line in lines if "destination_org_id" in line.details]
    assert sorted(map(str, org_ids)) == sorted([UNCLAIMED_ORGANIZATION, (await created.get_project()).org_id])


async def test_an_organization_that_has_room_for_one_gets_one_of_two(pages_app_on_store: PagesApp) -> None:
    user = await pages_app_on_store.create_user()
    personal_org = await get_personal_organization(pages_app_on_store, user)
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    small = {**plans, "free": {**plans["free"], "projects": 1}}
    app = _make_app(pages_app_on_store.platform, pages_app_on_store.services.store, plans=small)
    both = [await create_instant_database(app.services) for _ in range(2)]
    for created in both:
        await begin_claim(await app.create_context(user), created.id)
    claims = [complete_claim(await app.create_context(user), created.id, personal_org.id) for created in both]
    results = await asyncio.gather(*claims, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["CapacityExceeded", "NoneType"]
    async with pages_app_on_store.services.store.read() as rows:
        assert await rows.projects.count_in_organization(personal_org.id) == 1


async def test_a_claim_that_fails_half_way_has_not_happened(
    pages_app_on_store: PagesApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    created, user = await create_instant_database(pages_app_on_store.services), await pages_app_on_store.create_user()
    personal_org = await get_personal_organization(pages_app_on_store, user)
    await begin_claim(await pages_app_on_store.create_context(user), created.id)
    before = await created.get_row(), await created.get_project()
    with monkeypatch.context() as patch:
        patch.setattr(InstantDatabases, "save", _raise_error)
        with pytest.raises(ZeroDivisionError):
            await complete_claim(await pages_app_on_store.create_context(user), created.id, personal_org.id)
    assert (await created.get_row(), await created.get_project()) == before
    await claim_database(pages_app_on_store, created, user)


async def _raise_error(*_: object) -> None:
    raise ZeroDivisionError


async def _begin_and_complete(app: PagesApp, user: User, instant_id: InstantId) -> None:
    personal_org = await get_personal_organization(app, user)
    await begin_claim(await app.create_context(user), instant_id)
    await complete_claim(await app.create_context(user), instant_id, personal_org.id)


async def _check_owns_nothing(app: PagesApp, created: ClaimableDatabase, people: list[User]) -> None:
    async with app.services.store.read() as rows:
        for user in people:
            personal = await rows.organizations.get_personal(user.id)
            assert personal is not None
            assert await rows.projects.count_in_organization(personal.id) == 0
