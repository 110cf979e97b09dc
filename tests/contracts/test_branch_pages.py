"""Lists of branches: orders, pages, searches and usage, in both back ends."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any, get_args

import pytest

from bough.domain.branch import Branch, Volume
from bough.domain.project import Project
from bough.domain.usage import EndpointTraffic
from bough.ids import BranchId, ProjectId
from bough.store.branch_pages import BranchSortOrder, BranchUsage, BranchWithUsage, SortBy
from bough.store.paging import SortPosition
from bough.store.queries import Duplicate
from bough.store.store import Store
from support.stores import NOON, add_project, make_branch, make_endpoint, make_project

MINUTE = timedelta(minutes=1)
NEWEST = BranchSortOrder(by="created_at", is_descending=True)
ORDERS = [
    BranchSortOrder(by=by, is_descending=is_descending)
    for by, is_descending in product(get_args(SortBy), (True, False))
]


async def _create_children(store: Store, *names: str, **changes: Any) -> tuple[Project, list[Branch]]:
    """Creates a project with a root and children of these names, each created a minute later and changed a minute
    earlier than the one before.
    """
    project = make_project()
    root, _ = await add_project(store, project)
    created = [root]
    for number, name in enumerate(names, 1):
        timestamps = {"created_at": NOON + number * MINUTE, "updated_at": NOON - number * MINUTE}
        fields = {"parent_id": root.id, "is_default": False, "name": name, **timestamps, **changes}
        created.append(make_branch(project, **fields))
        await _add_branch(store, created[-1])
    return project, created


async def _add_branch(store: Store, branch: Branch) -> None:
    async with store.transaction() as rows:
        await rows.lineages.add_volume(Volume(id=branch.volume_id, project_id=branch.project_id, created_at=NOON))
        await rows.branches.add(branch)


async def _page(
    store: Store,
    project_id: ProjectId,
    order: BranchSortOrder = NEWEST,
    *,
    search: str = "",
    deleted_too: bool = False,
    limit: int = 100,
    after: SortPosition | None = None,
) -> tuple[list[BranchWithUsage], SortPosition | None]:
    async with store.read() as rows:
        return await rows.branch_pages.page(
            project_id, order, search=search, include_deleted=deleted_too, limit=limit, after=after
        )


async def _list_names(store: Store, project: Project, **query: Any) -> list[str]:
    page, _ = await _page(store, project.id, **query)
    return [row.branch.name for row in page]


async def _read_all_pages(
    store: Store, project: Project, order: BranchSortOrder, limit: int, **query: Any
) -> list[BranchId]:
    """Reads all pages and checks that the last one has no next position."""
    ids: list[BranchId] = []
    after = None
    while True:
        page, after = await _page(store, project.id, order, limit=limit, after=after, **query)
        ids += [row.branch.id for row in page]
        if after is None:
            return ids
        assert len(page) == limit


async def test_pages_hold_every_branch_once_and_in_order(store: Store) -> None:
    project, created = await _create_children(store, "b", "a", "c")
    await _create_children(store, "of another project")
    for order, limit in product(ORDERS, (1, 2, 4, 5)):
        expected = sorted(created, key=lambda branch: getattr(branch, order.by), reverse=order.is_descending)
        assert await _read_all_pages(store, project, order, limit) == [branch.id for branch in expected], (
            f"{order}, {limit}"
        )


async def test_rows_that_are_equal_in_their_order_are_told_apart(store: Store) -> None:
    project, created = await _create_children(store, "b", "a", "c", "d", created_at=NOON, updated_at=NOON)
    for order in ORDERS:
        assert sorted(await _read_all_pages(store, project, order, 2)) == sorted(branch.id for branch in created), order


async def test_names_in_any_script_are_paged_without_a_loss(store: Store) -> None:
    names = ["a", "B", "b", "Ä", "ä", "_", "-", "a b", "a-b", "日本", "🌿", "'", "\\", "%", "z\n"]
    project, created = await _create_children(store, *names)
    for order in (BranchSortOrder(by="name", is_descending=True), BranchSortOrder(by="name", is_descending=False)):
        paged = await _read_all_pages(store, project, order, 3)
        assert sorted(paged) == sorted(branch.id for branch in created)
        whole, _ = await _page(store, project.id, order)
        assert [row.branch.id for row in whole] == paged


async def test_a_page_that_holds_the_rest_says_so(store: Store) -> None:
    project, _ = await _create_children(store, "one", "two")
    for limit, more in ((2, True), (3, False), (4, False)):
        _, after = await _page(store, project.id, limit=limit)
        assert (after is not None) is more
    assert await _page(store, ProjectId.new()) == ([], None)


SEARCHES = [
    ("GRÜN", ["grün 🌿"]),
    ("straße", ["STRASSE"]),
    ("%", ["100%"]),
    ("_", ["a_b"]),
    ("\\", ["back\\slash"]),
    ("\\%", []),
    ("", ["back\\slash", "a_b", "100%", "STRASSE", "grün 🌿", "main"]),
]


async def test_a_search_reads_nothing_into_its_words(store: Store) -> None:
    project, _ = await _create_children(store, "grün 🌿", "STRASSE", "100%", "a_b", "back\\slash")
    for search, expected in SEARCHES:
        assert await _list_names(store, project, search=search) == expected
        async with store.read() as rows:
            assert await rows.branch_pages.count(project.id, search) == len(expected)


async def test_a_search_finds_ids_and_the_new_name_of_a_branch(store: Store) -> None:
    project, created = await _create_children(store, "öld")
    assert await _list_names(store, project, search=created[1].id.upper()) == ["öld"]
    async with store.transaction() as rows:
        await rows.branches.save(replace(created[1], name="nëw"))
    assert await _list_names(store, project, search="öld") == []
    assert await _list_names(store, project, search="NËW") == ["nëw"]


async def test_deleted_ones_are_listed_on_request_and_never_counted(store: Store) -> None:
    project, (root, kept, deleted) = await _create_children(store, "kept", "gone")
    async with store.transaction() as rows:
        await rows.branches.save(replace(deleted, deleted_at=NOON))
    assert await _list_names(store, project) == ["kept", "main"]
    assert await _list_names(store, project, deleted_too=True) == ["gone", "kept", "main"]
    paged = await _read_all_pages(store, project, NEWEST, 1, deleted_too=True)
    assert paged == [deleted.id, kept.id, root.id]
    async with store.read() as rows:
        assert await rows.branch_pages.count(project.id, "") == 2
        row = await rows.branch_pages.get(project.id, deleted.id)
    assert row is not None
    assert row.branch.deleted_at == NOON


async def test_what_its_endpoints_used_is_added_up_those_that_are_gone_too(store: Store) -> None:
    project = make_project()
    branch, endpoint = await add_project(store, project)
    other = make_endpoint(branch)
    async with store.transaction() as rows:
        await rows.endpoints.add(other)
        for each, out in ((endpoint, 5), (other, 2)):
            await rows.usage.start_metering(each.id, NOON)
            await rows.usage.stop_metering(each, NOON + MINUTE)
            await rows.usage.add_cpu(each.id, NOON, 3.0)
            await rows.usage.add_traffic(
                EndpointTraffic(endpoint_id=each.id, bytes_in=100, bytes_out=out, connections_opened=1)
            )
        await rows.endpoints.save(replace(other, deleted_at=NOON))
    async with store.read() as rows:
        row = await rows.branch_pages.get(project.id, branch.id)
        page, _ = await rows.branch_pages.page(
            project.id, NEWEST, search="", include_deleted=False, limit=1, after=None
        )
    assert row is not None
    assert page == [row]
    assert (row.branch, row.creator) == (branch, "Operator")
    assert (row.usage.bytes_out, row.usage.active_seconds, row.usage.cpu_seconds) == (7, 120, 6)
    assert row.usage.compute_seconds == 240  # at 2 CU


async def test_one_that_nobody_used_has_used_nothing(store: Store) -> None:
    project, (_, child) = await _create_children(store, "dev")
    async with store.read() as rows:
        row = await rows.branch_pages.get(project.id, child.id)
        assert await rows.branch_pages.get(ProjectId.new(), child.id) is None
        assert await rows.branch_pages.get(project.id, BranchId.new()) is None
    assert row is not None
    assert (row.branch, row.usage) == (child, BranchUsage())


async def test_a_name_is_free_when_its_branch_is_gone(store: Store) -> None:
    project, (root, deleted) = await _create_children(store, "dev")
    again = make_branch(project, parent_id=root.id, is_default=False, name="dev")
    with pytest.raises(Duplicate):
        await _add_branch(store, again)
    async with store.transaction() as rows:
        await rows.branches.save(replace(deleted, deleted_at=NOON))
    await _add_branch(store, again)
    assert await _list_names(store, project, deleted_too=True, search="dev") == ["dev", "dev"]
