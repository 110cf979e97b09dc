"""Lists of branches: search, sort, and pagination that returns every row once."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from api.project_client import ProjectClient, create_project_client
from support.api_client import Caller, Json

ORDERS = list(product(("name", "created_at", "updated_at"), ("asc", "desc")))
SENTENCES = ("was not issued by this API", "belongs to another sort order")


async def _fan(caller: Caller, *names: str) -> ProjectClient:
    tree = await create_project_client(caller)
    for name in names:
        await tree.begin_branch(name)
    await tree.finish_operations()
    return tree


async def _pages(tree: ProjectClient, **query: Any) -> AsyncIterator[list[Json]]:
    cursor: Json = {}
    while True:
        response = await tree.request("GET", tree.branches_path, **query, **cursor)
        yield response["branches"]
        if "next" not in response["pagination"]:
            return
        cursor = {"cursor": response["pagination"]["next"]}


def _cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


async def test_the_branch_that_changed_last_comes_first(caller: Caller) -> None:
    tree = await _fan(caller, "one", "two")
    assert await tree.list_branch_names() == ["two", "one", "main"]
    await tree.request("PATCH", tree.branch_path(tree.main_branch_id), {"branch": {"name": "trunk"}})
    response = await tree.request("GET", tree.branches_path)
    assert [each["name"] for each in response["branches"]] == ["trunk", "two", "one"]
    assert response["pagination"] == {"sort_by": "updated_at", "sort_order": "desc"}


@pytest.mark.parametrize(("by", "order"), ORDERS)
@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_pages_hold_every_branch_once_and_in_order(caller: Caller, by: str, order: str, limit: int) -> None:
    tree = await _fan(caller, "b", "a", "é", "B", "_", "%")
    await tree.request("PATCH", tree.branch_path(tree.main_branch_id), {"branch": {"protected": True}})
    pages = [page async for page in _pages(tree, sort_by=by, sort_order=order, limit=limit)]
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert 1 <= len(pages[-1]) <= limit
    seen = [branch for page in pages for branch in page]
    assert {branch["name"] for branch in seen} == {"main", "b", "a", "é", "B", "_", "%"}
    assert len(seen) == 7
    whole = (await tree.request("GET", tree.branches_path, sort_by=by, sort_order=order))["branches"]
    assert seen == whole
    if by != "name":  # the sort order of names depends on the store
        assert seen == sorted(seen, key=lambda branch: branch[by], reverse=order == "desc")


@pytest.mark.parametrize(("by", "order"), ORDERS)
async def test_branches_of_the_same_moment_are_not_lost_between_pages(caller: Caller, by: str, order: str) -> None:
    tree = await _fan(caller, "one", "two", "three")
    moment = (await tree.get_branch_row(tree.main_branch_id)).created_at + timedelta(seconds=1)
    async with caller.api_app.services.store.transaction() as rows:
        for each in (await tree.request("GET", tree.branches_path))["branches"]:
            row = await tree.get_branch_row(each["id"])
            object.__setattr__(row, "created_at", moment)
            object.__setattr__(row, "updated_at", moment)
            await rows.branches.save(row)
    seen = [branch["id"] async for page in _pages(tree, sort_by=by, sort_order=order, limit=1) for branch in page]
    assert len(seen) == 4
    assert len(set(seen)) == 4


async def test_the_two_directions_are_each_others_mirror(caller: Caller) -> None:
    tree = await _fan(caller, "one", "two", "three")
    for by in ("name", "created_at", "updated_at"):
        up, down = [await tree.list_branch_names(sort_by=by, sort_order=order) for order in ("asc", "desc")]
        assert up == down[::-1]
    assert await tree.list_branch_names(sort_by="created_at", sort_order="asc") == ["main", "one", "two", "three"]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("dév", {"dév", "Dév/2", "a dév b"}),
        ("DÉV", {"dév", "Dév/2", "a dév b"}),
        ("GRÜN", {"grün 🌿"}),
        ("🌿", {"grün 🌿"}),
        ("straße", {"STRASSE"}),
        ("%", {"100%"}),
        ("_", {"a_b"}),
        ("\\", {"back\\slash"}),
        ("'", set()),
        ("nothing", set()),
        ("", {"main", "dév", "Dév/2", "a dév b", "grün 🌿", "100%", "a_b", "back\\slash", "STRASSE"}),
    ],
)
# Ids are searched too, so these search texts cannot occur in an id.
async def test_a_search_finds_any_part_of_a_name_in_any_case(caller: Caller, search: str, found: set[str]) -> None:
    tree = await _fan(caller, "dév", "Dév/2", "a dév b", "grün 🌿", "100%", "a_b", "back\\slash", "STRASSE")
    assert set(await tree.list_branch_names(search=search)) == found
    assert (await tree.request("GET", f"{tree.branches_path}/count", search=search))["count"] == len(found)
    paged = [each["name"] async for page in _pages(tree, search=search, limit=1) for each in page]
    assert paged == await tree.list_branch_names(search=search)


async def test_a_search_finds_an_id(caller: Caller) -> None:
    tree = await _fan(caller, "one", "two")
    assert await tree.list_branch_names(search=tree.main_branch_id) == ["main"]
    assert await tree.list_branch_names(search=tree.main_branch_id[3:].upper()) == ["main"]


async def test_deleted_branches_are_listed_when_they_are_asked_for(caller: Caller) -> None:
    tree = await _fan(caller, "kept", "gone")
    deleted = (await tree.request("GET", tree.branches_path, search="gone"))["branches"][0]["id"]
    await tree.request_and_finish("DELETE", tree.branch_path(deleted))
    await tree.create_branch("gone")
    assert sorted(await tree.list_branch_names()) == ["gone", "kept", "main"]
    assert sorted(await tree.list_branch_names(include_deleted=True)) == ["gone", "gone", "kept", "main"]
    assert await tree.list_branch_names(include_deleted=True, search="gone") == ["gone", "gone"]
    assert (await tree.request("GET", f"{tree.branches_path}/count"))["count"] == 3


async def test_lists_and_counts_keep_to_their_project(caller: Caller) -> None:
    tree, other = await _fan(caller, "one"), await _fan(caller, "two")
    assert sorted(await tree.list_branch_names()) == ["main", "one"]
    assert (await other.request("GET", f"{other.branches_path}/count"))["count"] == 2
    await tree.request("GET", tree.branch_path(other.main_branch_id), status=404)


async def test_a_cursor_keeps_to_the_order_it_was_given_with(caller: Caller) -> None:
    tree = await _fan(caller, "one", "two!")
    query: Json = {"sort_by": "name", "sort_order": "asc", "limit": 1}
    cursor = (await tree.request("GET", tree.branches_path, **query))["pagination"]["next"]
    for other in ({**query, "sort_order": "desc"}, {**query, "sort_by": "created_at"}, {}):
        response = await tree.request("GET", tree.branches_path, status=400, **other, cursor=cursor)
        assert "belongs to another sort order. Repeat the sort_by and sort_order" in response["message"]
    assert await tree.list_branch_names(**query, cursor=cursor) == ["one"]
    assert await tree.list_branch_names(**{**query, "limit": 9}, cursor=cursor, search="!") == ["two!"]


@pytest.mark.parametrize("by", ["name", "updated_at"])
@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "====",
        "é",
        "a" * 5000,
        "[" * 3000,
        base64.urlsafe_b64encode(b"[" * 20_000).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        _cursor(),
        _cursor("name"),
        _cursor("name", True, "a", "br-none", 1),
        _cursor("name", True, 7, "br-none"),
        _cursor("name", True, "a", None),
        _cursor("name", True, "a", "Not an id"),
        _cursor("name", True, "a\0", "br-none"),
        _cursor("name", True, "\ud800", "br-none"),
        _cursor("updated_at", True, "yesterday", "br-none"),
        _cursor("updated_at", True, "0001-01-01T00:00:00+14:00", "br-none"),
        _cursor("updated_at", True, "2026-01-01T00:00:00Z", "br-none\n"),
        _cursor(["name"], True, "a", "br-none"),
        _cursor({}, {}, {}, {}),
    ],
)
async def test_what_is_no_cursor_is_refused_with_a_sentence(caller: Caller, by: str, cursor: str) -> None:
    tree = await create_project_client(caller)
    response = await tree.request("GET", tree.branches_path, status=400, sort_by=by, cursor=cursor)
    assert any(sentence in response["message"] for sentence in SENTENCES)


@pytest.mark.parametrize(("moment", "found"), [("0001-01-01T00:00:00Z", []), ("9999-12-31T23:59:59Z", ["one", "main"])])
async def test_a_cursor_at_the_end_of_time_is_a_place_like_any_other(
    caller: Caller, moment: str, found: list[str]
) -> None:
    tree = await _fan(caller, "one")
    assert await tree.list_branch_names(cursor=_cursor("updated_at", True, moment, "br-none")) == found


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 10_001},
        {"limit": "many"},
        {"sort_by": "size"},
        {"sort_order": "up"},
        {"include_deleted": "maybe"},
        {"search": "x" * 257},
        {"search": "\0"},
        {"cursor": "\0"},
    ],
)
async def test_a_bad_query_is_refused_and_names_what_is_bad(caller: Caller, query: Json) -> None:
    tree = await create_project_client(caller)
    response = await tree.request("GET", tree.branches_path, status=400, **query)
    assert next(iter(query)) in response["message"]


@pytest.mark.parametrize("query", [{"search": "x" * 257}, {"search": "\0"}])
async def test_a_bad_search_is_not_counted_either(caller: Caller, query: Json) -> None:
    tree = await create_project_client(caller)
    assert "search" in (await tree.request("GET", f"{tree.branches_path}/count", status=400, **query))["message"]
