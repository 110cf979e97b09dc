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
        yield _over(shared_platform, store)


def _over(platform: Platform, store: Store, **changes: Any) -> PagesApp:
    app = PagesApp(platform, **changes)
    app.services = replace(app.services, store=store, queue=OperationQueue(store, Events(), ALL_ACTIONS, 5))
    return app


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delays each decision before it is written, so that concurrent decisions could use outdated rows."""
    save = InstantDatabases.save

    async def think_and_save(rows: InstantDatabases, database: InstantDatabase) -> None:
        await asyncio.sleep(0.05)
        await save(rows, database)

    monkeypatch.setattr(InstantDatabases, "save", think_and_save)


async def _run_all(*work: Awaitable[None]) -> list[BaseException | None]:
    """Returns the error of each; None for success."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert all(response is None or isinstance(response, Conflict) for response in answers), answers
    return answers


@pytest.mark.usefixtures("slowly")
async def test_of_two_who_begin_at_once_one_does_and_the_other_is_told(pages_app_on_store: PagesApp) -> None:
    created, people = (
        await create_instant_database(pages_app_on_store.services),
        [await pages_app_on_store.create_user() for _ in range(2)],
    )
    contexts = [await pages_app_on_store.create_context(user) for user in people]
    answers = await _run_all(*(begin_claim(each, created.id) for each in contexts))
    assert sum(response is None for response in answers) == 1
    assert "Another user is claiming" in str(next(filter(None, answers)))


async def test_of_two_who_confirm_at_once_one_gets_it(pages_app_on_store: PagesApp) -> None:
    """The first claim expires just when the second starts."""
    created, first, second = (
        await create_instant_database(pages_app_on_store.services),
        await pages_app_on_store.create_user(),
        await pages_app_on_store.create_user(),
    )
    homes = [(await get_personal_organization(pages_app_on_store, user)).id for user in (first, second)]
    await begin_claim(await pages_app_on_store.create_context(first), created.id)
    holder = await created.get_row()
    await created.update_row(claiming_until=holder.created_at)
    late = [
        _whole(pages_app_on_store, second, created.id),
        complete_claim(await pages_app_on_store.create_context(first), created.id, homes[0]),
    ]
    answers = await _run_all(*late)
    assert [response is None for response in answers] == [True, False]
    assert (await created.get_project()).org_id == homes[1]
    assert (await created.get_shown()).status is InstantStatus.CLAIMED


@pytest.mark.usefixtures("slowly")
async def test_of_many_who_claim_it_whole_exactly_one_has_it_in_the_end(pages_app_on_store: PagesApp) -> None:
    created = await create_instant_database(pages_app_on_store.services)
    people = [await pages_app_on_store.create_user() for _ in range(8)]
    answers = await _run_all(*(_whole(pages_app_on_store, user, created.id) for user in people))
    winners = [user for user, response in zip(people, answers, strict=True) if response is None]
    assert len(winners) == 1
    assert (await created.get_project()).org_id == (await get_personal_organization(pages_app_on_store, winners[0])).id
    await _is_nowhere_else(pages_app_on_store, created, [user for user in people if user is not winners[0]])


@pytest.mark.usefixtures("slowly")
async def test_one_person_who_confirms_twice_at_once_has_it_in_one_place(pages_app_on_store: PagesApp) -> None:
    created, user = await create_instant_database(pages_app_on_store.services), await pages_app_on_store.create_user()
    own = await get_personal_organization(pages_app_on_store, user)
    team = await create_organization(await pages_app_on_store.create_context(user), "Team")
    await begin_claim(await pages_app_on_store.create_context(user), created.id)
    confirmed = [
        complete_claim(await pages_app_on_store.create_context(user), created.id, each.id) for each in (own, team)
    ]
    assert await _run_all(*confirmed) == [None, None]
    assert (await created.get_project()).org_id in (own.id, team.id)
    async with pages_app_on_store.services.store.read() as rows:
        assert (
            await rows.projects.count_in_organization(own.id) + await rows.projects.count_in_organization(team.id) == 1
        )
        lines = await rows.audit.page(AuditQuery(project_id=created.project_id), 100, None)
    org_ids = [line.org_id for line in lines if "destination_org_id" in line.details]
    assert sorted(map(str, org_ids)) == sorted([UNCLAIMED_ORGANIZATION, (await created.get_project()).org_id])


async def test_an_organization_that_has_room_for_one_gets_one_of_two(pages_app_on_store: PagesApp) -> None:
    user = await pages_app_on_store.create_user()
    own = await get_personal_organization(pages_app_on_store, user)
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    small = {**plans, "free": {**plans["free"], "projects": 1}}
    app = _over(pages_app_on_store.platform, pages_app_on_store.services.store, plans=small)
    both = [await create_instant_database(app.services) for _ in range(2)]
    for created in both:
        await begin_claim(await app.create_context(user), created.id)
    work = [complete_claim(await app.create_context(user), created.id, own.id) for created in both]
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert sorted(type(response).__name__ for response in answers) == ["CapacityExceeded", "NoneType"]
    async with pages_app_on_store.services.store.read() as rows:
        assert await rows.projects.count_in_organization(own.id) == 1


async def test_a_claim_that_fails_half_way_has_not_happened(
    pages_app_on_store: PagesApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    created, user = await create_instant_database(pages_app_on_store.services), await pages_app_on_store.create_user()
    own = await get_personal_organization(pages_app_on_store, user)
    await begin_claim(await pages_app_on_store.create_context(user), created.id)
    before = await created.get_row(), await created.get_project()
    with monkeypatch.context() as broken:
        broken.setattr(InstantDatabases, "save", _dies)
        with pytest.raises(ZeroDivisionError):
            await complete_claim(await pages_app_on_store.create_context(user), created.id, own.id)
    assert (await created.get_row(), await created.get_project()) == before
    await claim_database(pages_app_on_store, created, user)


async def _dies(*_: object) -> None:
    raise ZeroDivisionError


async def _whole(app: PagesApp, user: User, instant_id: InstantId) -> None:
    own = await get_personal_organization(app, user)
    await begin_claim(await app.create_context(user), instant_id)
    await complete_claim(await app.create_context(user), instant_id, own.id)


async def _is_nowhere_else(app: PagesApp, created: ClaimableDatabase, people: list[User]) -> None:
    async with app.services.store.read() as rows:
        for user in people:
            home = await rows.organizations.get_personal(user.id)
            assert home is not None
            assert await rows.projects.count_in_organization(home.id) == 0
