"""Several at once want one database: exactly one gets it, on both back ends of the store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

import stores
import world
from bough.config import DEFAULT_PLANS
from bough.control.claims import Claims
from bough.control.organizations import Organizations
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantDatabase, InstantStatus
from bough.domain.user import User
from bough.errors import Taken
from bough.ids import InstantId
from bough.operations.actions import EVERY
from bough.operations.events import Events
from bough.operations.queue import Queue
from bough.store.audit import AuditQuestion
from bough.store.instant_databases import InstantDatabases
from bough.store.store import Store
from pages.claiming import Instant, claimed, instant, personal
from pages.front import Front


@pytest_asyncio.fixture(params=stores.BACK_ENDS, scope="module", loop_scope="session")
async def on_either(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    shared_platform: world.Platform,
    postgres_server: world.PostgresServer,
) -> AsyncIterator[Front]:
    """The pages over a store of each kind."""
    async with stores.opened(request.param, tmp_path_factory.mktemp("store"), postgres_server) as store:
        yield _over(shared_platform, store)


def _over(platform: world.Platform, store: Store, **changes: Any) -> Front:
    front = Front(platform, **changes)
    front.parts = replace(front.parts, store=store, queue=Queue(store, Events(), EVERY, 5))
    return front


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever decides thinks for a while before they write, so that others might decide by what is not true then."""
    save = InstantDatabases.save

    async def think_and_save(rows: InstantDatabases, database: InstantDatabase) -> None:
        await asyncio.sleep(0.05)
        await save(rows, database)

    monkeypatch.setattr(InstantDatabases, "save", think_and_save)


async def _claims(front: Front, user: User) -> Claims:
    return Claims(await front.desk(user))


async def _told(*work: Awaitable[None]) -> list[BaseException | None]:
    """What each of them was told; None: it went well."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert all(answer is None or isinstance(answer, Taken) for answer in answers), answers
    return answers


@pytest.mark.usefixtures("slowly")
async def test_of_two_who_begin_at_once_one_does_and_the_other_is_told(on_either: Front) -> None:
    made, people = await instant(on_either.parts), [await on_either.account() for _ in range(2)]
    claims = [await _claims(on_either, user) for user in people]
    answers = await _told(*(each.begin(made.id) for each in claims))
    assert sum(answer is None for answer in answers) == 1
    assert "Somebody else is claiming" in str(next(filter(None, answers)))


async def test_of_two_who_confirm_at_once_one_gets_it(on_either: Front) -> None:
    """The claim of the first has just lapsed when the second begins theirs."""
    made, first, second = await instant(on_either.parts), await on_either.account(), await on_either.account()
    homes = [(await personal(on_either, user)).id for user in (first, second)]
    await (await _claims(on_either, first)).begin(made.id)
    holder = await made.row()
    await made.change(claiming_until=holder.created_at)
    late = [_whole(on_either, second, made.id), (await _claims(on_either, first)).complete(made.id, homes[0])]
    answers = await _told(*late)
    assert [answer is None for answer in answers] == [True, False]
    assert (await made.project()).org_id == homes[1]
    assert (await made.seen()).status is InstantStatus.CLAIMED


@pytest.mark.usefixtures("slowly")
async def test_of_many_who_claim_it_whole_exactly_one_has_it_in_the_end(on_either: Front) -> None:
    made = await instant(on_either.parts)
    people = [await on_either.account() for _ in range(8)]
    answers = await _told(*(_whole(on_either, user, made.id) for user in people))
    winners = [user for user, answer in zip(people, answers, strict=True) if answer is None]
    assert len(winners) == 1
    assert (await made.project()).org_id == (await personal(on_either, winners[0])).id
    await _is_nowhere_else(on_either, made, [user for user in people if user is not winners[0]])


@pytest.mark.usefixtures("slowly")
async def test_one_person_who_confirms_twice_at_once_has_it_in_one_place(on_either: Front) -> None:
    made, user = await instant(on_either.parts), await on_either.account()
    own = await personal(on_either, user)
    team = await Organizations(await on_either.desk(user)).create("Team")
    await (await _claims(on_either, user)).begin(made.id)
    confirmed = [(await _claims(on_either, user)).complete(made.id, each.id) for each in (own, team)]
    assert await _told(*confirmed) == [None, None]
    assert (await made.project()).org_id in (own.id, team.id)
    async with on_either.parts.store.read() as rows:
        assert await rows.projects.count_in(own.id) + await rows.projects.count_in(team.id) == 1
        lines = await rows.audit.page(AuditQuestion(project_id=made.project_id), 100, None)
    told = [line.org_id for line in lines if "destination_org_id" in line.details]
    assert sorted(map(str, told)) == sorted([UNCLAIMED_ORGANIZATION, (await made.project()).org_id])


async def test_an_organization_that_has_room_for_one_gets_one_of_two(on_either: Front) -> None:
    user = await on_either.account()
    own = await personal(on_either, user)
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    small = {**plans, "free": {**plans["free"], "projects": 1}}
    front = _over(on_either.platform, on_either.parts.store, plans=small)
    both = [await instant(front.parts) for _ in range(2)]
    for made in both:
        await (await _claims(front, user)).begin(made.id)
    work = [(await _claims(front, user)).complete(made.id, own.id) for made in both]
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["CapacityExceeded", "NoneType"]
    async with on_either.parts.store.read() as rows:
        assert await rows.projects.count_in(own.id) == 1


async def test_a_claim_that_fails_half_way_has_not_happened(on_either: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    made, user = await instant(on_either.parts), await on_either.account()
    own = await personal(on_either, user)
    await (await _claims(on_either, user)).begin(made.id)
    before = await made.row(), await made.project()
    with monkeypatch.context() as broken:
        broken.setattr(InstantDatabases, "save", _dies)
        with pytest.raises(ZeroDivisionError):
            await (await _claims(on_either, user)).complete(made.id, own.id)
    assert (await made.row(), await made.project()) == before
    await claimed(on_either, made, user)


async def _dies(*_: object) -> None:
    raise ZeroDivisionError


async def _whole(front: Front, user: User, instant_id: InstantId) -> None:
    own = await personal(front, user)
    await (await _claims(front, user)).begin(instant_id)
    await (await _claims(front, user)).complete(instant_id, own.id)


async def _is_nowhere_else(front: Front, made: Instant, people: list[User]) -> None:
    async with front.parts.store.read() as rows:
        for user in people:
            home = await rows.organizations.personal(user.id)
            assert home is not None
            assert await rows.projects.count_in(home.id) == 0
