"""What every back end of the store must do."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bough.domain.endpoint import EndpointState
from bough.domain.organization import Organization
from bough.domain.user import OPERATOR
from bough.errors import InvalidSetting, Unavailable
from bough.ids import OrganizationId, ProjectId
from bough.store.paging import PagePosition
from bough.store.postgres import PostgresStore
from bough.store.queries import Duplicate
from bough.store.store import Store
from support.postgres import PostgresServer
from support.stores import NOON, ORGANIZATION, add_project, make_project


async def test_the_operator_and_its_organization_are_there_from_the_first(store: Store) -> None:
    async with store.read() as rows:
        user = await rows.users.get(OPERATOR)
        organizations = await rows.organizations.list_by_user(OPERATOR)
    assert user is not None
    assert [organization.id for organization in organizations] == [ORGANIZATION]
    assert organizations[0].personal_for == OPERATOR


async def test_what_is_written_is_read_back_whole(store: Store) -> None:
    project = make_project(
        name="Grün 'quoted' \\ %_", settings={"quota": {"written_data_bytes": 2**62}, "x": [None, 1.5]}
    )
    branch, endpoint = await add_project(store, project)
    async with store.read() as rows:
        assert await rows.projects.get(project.id) == project
        assert await rows.branches.get(project.id, branch.id) == branch
        assert await rows.endpoints.get(endpoint.id) == endpoint
        history = await rows.lineages.list_ranges(branch.id)
    assert [past.branch_lineage.position for past in history] == [0]


async def test_volumes_are_told_with_the_names_of_what_they_hold(store: Store) -> None:
    project = make_project(name="orchard")
    branch, _ = await add_project(store, project)
    async with store.read() as rows:
        use = next(each for each in await rows.volume_uses.list_all() if each.volume_id == branch.volume_id)
    assert (use.project_id, use.project_name) == (project.id, "orchard")
    assert (use.branch_id, use.branch_name) == (branch.id, branch.name)


async def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    project = make_project()
    with pytest.raises(RuntimeError, match="halfway"):
        async with store.transaction() as rows:
            await rows.projects.add(project)
            raise RuntimeError("halfway")
    async with store.read() as rows:
        assert await rows.projects.get(project.id) is None


async def test_what_need_not_last_is_also_all_or_nothing_and_seen_at_once(store: Store) -> None:
    project, halfway = make_project(), make_project()
    async with store.transaction(durable=False) as rows:
        await rows.projects.add(project)
    with pytest.raises(RuntimeError, match="halfway"):
        async with store.transaction(durable=False) as rows:
            await rows.projects.add(halfway)
            raise RuntimeError("halfway")
    async with store.read() as rows:
        assert await rows.projects.get(project.id) == project
        assert await rows.projects.get(halfway.id) is None


async def test_transactions_that_come_together_do_not_mix(store: Store) -> None:
    async def count_up(lasting: bool) -> None:
        async with store.transaction(durable=lasting) as rows:
            await rows.projects.lock(project.id)
            found = await rows.projects.get(project.id)
            assert found is not None
            seconds = found.history_retention_seconds + 1
            await rows.projects.save(replace(found, history_retention_seconds=seconds))

    project = make_project(history_retention_seconds=0)
    await add_project(store, project)
    await asyncio.gather(*(count_up(lasting=bool(number % 2)) for number in range(10)))
    async with store.read() as rows:
        found = await rows.projects.get(project.id)
    assert found is not None
    assert found.history_retention_seconds == 10


@pytest.mark.parametrize("turns", range(12))
async def test_a_transaction_that_is_cancelled_is_whole_or_not_there(store: Store, turns: int) -> None:
    projects = [make_project(0), make_project(1)]

    async def add() -> None:
        async with store.transaction(durable=False) as rows:
            for project in projects:
                await rows.projects.add(project)

    adding = asyncio.create_task(add())
    for _ in range(turns):
        await asyncio.sleep(0)
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    async with store.transaction() as rows:
        await rows.projects.add(make_project(2))  # the interrupted transaction does not block the next one
    async with store.read() as rows:
        there = [await rows.projects.get(project.id) is not None for project in projects]
    assert there in ([True, True], [False, False])


async def test_a_key_that_is_taken_is_a_duplicate(store: Store) -> None:
    project = make_project()
    async with store.transaction() as rows:
        await rows.projects.add(project)
    with pytest.raises(Duplicate):
        async with store.transaction() as rows:
            await rows.projects.add(project)


async def test_readers_do_not_wait_for_a_writer(store: Store) -> None:
    project = make_project()
    async with store.transaction() as writing:
        await writing.projects.add(project)
        async with store.read() as rows:
            assert await asyncio.wait_for(rows.projects.get(project.id), 5) is None
    async with store.read() as rows:
        assert await rows.projects.get(project.id) == project


async def test_pages_neither_skip_nor_repeat_while_rows_come_and_go(store: Store) -> None:
    projects = [make_project(minute) for minute in range(7)]
    async with store.transaction() as rows:
        for project in projects:
            await rows.projects.add(project)
    async with store.read() as rows:
        first = await rows.project_pages.page({ORGANIZATION: None}, search="", limit=3, after=None)
    async with store.transaction() as rows:
        await rows.projects.add(make_project(99))  # newer than everything on the first page
        deleted = replace(projects[4], deleted_at=NOON, recoverable_until=NOON)
        await rows.projects.save(deleted)  # the last one on the first page
    async with store.read() as rows:
        second = await rows.project_pages.page({ORGANIZATION: None}, search="", limit=3, after=first.next)
        third = await rows.project_pages.page({ORGANIZATION: None}, search="", limit=3, after=second.next)
    shown = [[seen.project.name for seen in page.rows] for page in (first, second, third)]
    assert shown == [["project 6", "project 5", "project 4"], ["project 3", "project 2", "project 1"], ["project 0"]]
    assert third.next is None


async def test_rows_of_the_same_moment_have_an_order(store: Store) -> None:
    same = [make_project(0) for _ in range(5)]
    async with store.transaction() as rows:
        for project in same:
            await rows.projects.add(project)
    seen: list[ProjectId] = []
    place: PagePosition | None = None
    while True:
        async with store.read() as rows:
            page = await rows.project_pages.page({ORGANIZATION: None}, search="", limit=2, after=place)
        seen += [row.project.id for row in page.rows]
        if (place := page.next) is None:
            break
    assert sorted(seen) == sorted(project.id for project in same)


@pytest.mark.parametrize("text", ["GRÜN", "grün", "100%", "a_b", "\\"])
async def test_search_folds_case_and_takes_its_letters_as_they_are(store: Store, text: str) -> None:
    async with store.transaction() as rows:
        await rows.projects.add(make_project(name="Grün 100% a_b \\ end"))
        await rows.projects.add(make_project(name="GRXN 100x axb"))
    async with store.read() as rows:
        page = await rows.project_pages.page({ORGANIZATION: None}, search=text, limit=10, after=None)
    assert [seen.project.name for seen in page.rows] == ["Grün 100% a_b \\ end"]


async def test_sizes_and_activity_are_seen_with_a_project(store: Store) -> None:
    project = make_project()
    branch, endpoint = await add_project(store, project)
    async with store.transaction() as rows:
        await rows.branches.set_logical_size(branch.id, 2**40)
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE, last_active=NOON))
    async with store.read() as rows:
        seen = await rows.project_pages.get(project.id)
        active = await rows.endpoints.list_active()
    assert seen is not None
    assert (seen.storage_bytes, seen.last_active) == (2**40, NOON)
    assert [each.id for each in active] == [endpoint.id]


async def test_a_forgotten_branch_leaves_no_row(store: Store) -> None:
    project = make_project(deleted_at=NOON, recoverable_until=NOON)
    branch, endpoint = await add_project(store, project)
    async with store.transaction() as rows:
        await rows.branches.delete(branch.id)
        await rows.projects.purge(project.id, NOON)
    async with store.read() as rows:
        assert await rows.branches.list_with_deleted(project.id) == []
        assert await rows.endpoints.get(endpoint.id) is None
        assert await rows.projects.get(project.id) is None
        assert await rows.projects.list_past_recovery(NOON + timedelta(days=1), 10) == []


async def test_one_answer_is_kept_for_one_key(store: Store) -> None:
    async with store.transaction() as rows:
        await rows.idempotency.reserve("key", "print", NOON)
    with pytest.raises(Duplicate):
        async with store.transaction() as rows:
            await rows.idempotency.reserve("key", "print", NOON)
    async with store.transaction() as rows:
        await rows.idempotency.save_response("key", 201, "sealed")
    async with store.read() as rows:
        kept = await rows.idempotency.get("key")
    assert kept is not None
    assert (kept.status, kept.sealed_body, kept.created_at) == (201, "sealed", NOON)
    async with store.transaction() as rows:
        assert await rows.idempotency.delete_before(NOON + timedelta(seconds=1)) == 1


async def test_a_store_that_is_away_is_a_passing_trouble(tmp_path: Path) -> None:
    away = PostgresStore(f"postgresql://store@/none?host={tmp_path}")
    with pytest.raises(Unavailable, match="store_url"):
        await away.open()
    with pytest.raises(Unavailable, match="Try again"):
        async with away.read() as rows:
            await rows.users.get(OPERATOR)
    await away.close()


async def test_a_database_that_cannot_hold_every_letter_is_refused(postgres_server: PostgresServer) -> None:
    url = await postgres_server.create_database("ascii", "encoding 'SQL_ASCII' template template0")
    store = PostgresStore(url)
    with pytest.raises(InvalidSetting, match="UTF8"):
        await store.open()
    await store.close()


async def test_a_page_over_several_organizations_is_one_order(store: Store) -> None:
    other = Organization(
        id=OrganizationId.new(),
        name="Other",
        handle="other",
        plan="free",
        personal_for=None,
        created_at=NOON,
        updated_at=NOON,
    )
    async with store.transaction() as rows:
        await rows.organizations.add(other)
        for minute in range(6):
            await rows.projects.add(make_project(minute, org_id=other.id if minute % 2 else ORGANIZATION))
    async with store.read() as rows:
        first = await rows.project_pages.page({ORGANIZATION: None, other.id: None}, search="", limit=4, after=None)
        second = await rows.project_pages.page(
            {ORGANIZATION: None, other.id: None}, search="", limit=4, after=first.next
        )
    shown = [[seen.project.name for seen in page.rows] for page in (first, second)]
    assert shown == [["project 5", "project 4", "project 3", "project 2"], ["project 1", "project 0"]]
