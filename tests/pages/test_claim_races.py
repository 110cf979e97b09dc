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
    front = PagesApp(platform, **changes)
    front.services = replace(front.services, store=store, queue=OperationQueue(store, Events(), ALL_ACTIONS, 5))
    return front


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delays each decision before it is written, so that concurrent decisions could use outdated rows."""
    save = InstantDatabases.save

    async def think_and_save(rows: InstantDatabases, database: InstantDatabase) -> None:
        await asyncio.sleep(0.05)
        await save(rows, database)

    monkeypatch.setattr(InstantDatabases, "save", think_and_save)


async def _told(*work: Awaitable[None]) -> list[BaseException | None]:
    """Returns the error of each; None for success."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert all(answer is None or isinstance(answer, Conflict) for answer in answers), answers
    return answers


@pytest.mark.usefixtures("slowly")
async def test_of_two_who_begin_at_once_one_does_and_the_other_is_told(pages_app_on_store: PagesApp) -> None:
    made, people = (
        await create_instant_database(pages_app_on_store.services),
        [await pages_app_on_store.create_user() for _ in range(2)],
    )
    contexts = [await pages_app_on_store.create_context(user) for user in people]
    answers = await _told(*(begin_claim(each, made.id) for each in contexts))
    assert sum(answer is None for answer in answers) == 1
    assert "Somebody else is claiming" in str(next(filter(None, answers)))


async def test_of_two_who_confirm_at_once_one_gets_it(pages_app_on_store: PagesApp) -> None:
    """The first claim expires just when the second starts."""
    made, first, second = (
        await create_instant_database(pages_app_on_store.services),
        await pages_app_on_store.create_user(),
        await pages_app_on_store.create_user(),
    )
    homes = [(await get_personal_organization(pages_app_on_store, user)).id for user in (first, second)]
    await begin_claim(await pages_app_on_store.create_context(first), made.id)
    holder = await made.get_row()
    await made.update_row(claiming_until=holder.created_at)
    late = [
        _whole(pages_app_on_store, second, made.id),
        complete_claim(await pages_app_on_store.create_context(first), made.id, homes[0]),
    ]
    answers = await _told(*late)
    assert [answer is None for answer in answers] == [True, False]
    assert (await made.get_project()).org_id == homes[1]
    assert (await made.get_shown()).status is InstantStatus.CLAIMED


@pytest.mark.usefixtures("slowly")
async def test_of_many_who_claim_it_whole_exactly_one_has_it_in_the_end(pages_app_on_store: PagesApp) -> None:
    made = await create_instant_database(pages_app_on_store.services)
    people = [await pages_app_on_store.create_user() for _ in range(8)]
    answers = await _told(*(_whole(pages_app_on_store, user, made.id) for user in people))
    winners = [user for user, answer in zip(people, answers, strict=True) if answer is None]
    assert len(winners) == 1
    assert (await made.get_project()).org_id == (await get_personal_organization(pages_app_on_store, winners[0])).id
    await _is_nowhere_else(pages_app_on_store, made, [user for user in people if user is not winners[0]])


@pytest.mark.usefixtures("slowly")
async def test_one_person_who_confirms_twice_at_once_has_it_in_one_place(pages_app_on_store: PagesApp) -> None:
    made, user = await create_instant_database(pages_app_on_store.services), await pages_app_on_store.create_user()
    own = await get_personal_organization(pages_app_on_store, user)
    team = await create_organization(await pages_app_on_store.create_context(user), "Team")
    await begin_claim(await pages_app_on_store.create_context(user), made.id)
    confirmed = [
        complete_claim(await pages_app_on_store.create_context(user), made.id, each.id) for each in (own, team)
    ]
    assert await _told(*confirmed) == [None, None]
    assert (await made.get_project()).org_id in (own.id, team.id)
    async with pages_app_on_store.services.store.read() as rows:
        assert (
            await rows.projects.count_in_organization(own.id) + await rows.projects.count_in_organization(team.id) == 1
        )
        lines = await rows.audit.page(AuditQuery(project_id=made.project_id), 100, None)
    told = [line.org_id for line in lines if "destination_org_id" in line.details]
    assert sorted(map(str, told)) == sorted([UNCLAIMED_ORGANIZATION, (await made.get_project()).org_id])


async def test_an_organization_that_has_room_for_one_gets_one_of_two(pages_app_on_store: PagesApp) -> None:
    user = await pages_app_on_store.create_user()
    own = await get_personal_organization(pages_app_on_store, user)
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    small = {**plans, "free": {**plans["free"], "projects": 1}}
    front = _over(pages_app_on_store.platform, pages_app_on_store.services.store, plans=small)
    both = [await create_instant_database(front.services) for _ in range(2)]
    for made in both:
        await begin_claim(await front.create_context(user), made.id)
    work = [complete_claim(await front.create_context(user), made.id, own.id) for made in both]
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["CapacityExceeded", "NoneType"]
    async with pages_app_on_store.services.store.read() as rows:
        assert await rows.projects.count_in_organization(own.id) == 1


async def test_a_claim_that_fails_half_way_has_not_happened(
    pages_app_on_store: PagesApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, user = await create_instant_database(pages_app_on_store.services), await pages_app_on_store.create_user()
    own = await get_personal_organization(pages_app_on_store, user)
    await begin_claim(await pages_app_on_store.create_context(user), made.id)
    before = await made.get_row(), await made.get_project()
    with monkeypatch.context() as broken:
        broken.setattr(InstantDatabases, "save", _dies)
        with pytest.raises(ZeroDivisionError):
            await complete_claim(await pages_app_on_store.create_context(user), made.id, own.id)
    assert (await made.get_row(), await made.get_project()) == before
    await claim_database(pages_app_on_store, made, user)


async def _dies(*_: object) -> None:
    raise ZeroDivisionError


async def _whole(front: PagesApp, user: User, instant_id: InstantId) -> None:
    own = await get_personal_organization(front, user)
    await begin_claim(await front.create_context(user), instant_id)
    await complete_claim(await front.create_context(user), instant_id, own.id)


async def _is_nowhere_else(front: PagesApp, made: ClaimableDatabase, people: list[User]) -> None:
    async with front.services.store.read() as rows:
        for user in people:
            home = await rows.organizations.get_personal(user.id)
            assert home is not None
            assert await rows.projects.count_in_organization(home.id) == 0
