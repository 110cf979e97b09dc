"""Cursors: pages neither hide nor repeat a row while rows are added and removed."""

import base64
from typing import Any

import pytest

from bough import clock
from bough.ids import ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from support.api_client import Caller


async def _page(caller: Caller, path: str = "/projects", **query: Any) -> tuple[list[str], str | None]:
    """Returns the ids on a page and the cursor of the next page."""
    response = await caller.client.get(path, params=query)
    assert response.status_code == 200, response.text
    body = response.json()
    rows = body["projects" if path == "/projects" else "operations"]
    return [row["id"] for row in rows], body.get("pagination", {}).get("cursor")


async def _all(caller: Caller, path: str = "/projects", **query: Any) -> list[str]:
    ids, cursor = await _page(caller, path, **query)
    while cursor is not None:
        more, cursor = await _page(caller, path, cursor=cursor, **query)
        assert more, "a cursor led to an empty page"
        ids += more
    return ids


async def test_pages_are_newest_first_and_end_without_a_cursor(caller: Caller) -> None:
    created = [await caller.create_ready_project(name=f"p{number}") for number in range(7)]
    newest_first = created[::-1]
    assert await _all(caller, limit=3) == newest_first
    assert await _all(caller, limit=1) == newest_first
    assert await _page(caller, limit=7) == (newest_first, None)
    assert await _page(caller) == (newest_first, None)
    first, cursor = await _page(caller, limit=6)
    assert (first, cursor is not None) == (newest_first[:6], True)


async def test_an_empty_account_has_an_empty_page(caller: Caller) -> None:
    assert await _page(caller) == ([], None)


async def test_ten_rows_are_a_page_unless_asked_otherwise(caller: Caller) -> None:
    created = [await caller.create_ready_project() for _ in range(11)]
    ids, cursor = await _page(caller)
    assert ids == created[:0:-1]
    assert await _page(caller, cursor=cursor) == ([created[0]], None)


async def test_rows_that_come_and_go_disturb_no_page(caller: Caller) -> None:
    created = [await caller.create_ready_project() for _ in range(9)]
    seen, cursor = await _page(caller, limit=3)
    await caller.create_ready_project(name="newcomer")
    for deleted in (
        created[8],
        created[6],
        created[5],
        created[2],
    ):  # an earlier row, the cursor's row, the next row, a later row
        assert (await caller.client.delete(f"/projects/{deleted}")).status_code == 200
    while cursor is not None:
        more, cursor = await _page(caller, limit=3, cursor=cursor)
        seen += more
    assert seen == [created[8], created[7], created[6], created[4], created[3], created[1], created[0]]


async def test_rows_of_the_same_moment_are_all_shown(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = clock.now()
    with monkeypatch.context() as frozen:
        frozen.setattr(clock, "now", lambda: moment)
        created = [(await caller.create_project())["project"]["id"] for _ in range(5)]
    assert await _all(caller, limit=2) == sorted(created, reverse=True)


@pytest.mark.parametrize("limit", ["0", "-1", "401", "ten", "1.5", "", "99999999999999999999"])
async def test_a_limit_out_of_bounds_is_refused(caller: Caller, limit: str) -> None:
    response = await caller.client.get("/projects", params={"limit": limit})
    assert response.status_code == 400
    assert "limit" in response.json()["message"]


@pytest.mark.parametrize("limit", [1, 400])
async def test_the_bounds_themselves_are_fine(caller: Caller, limit: int) -> None:
    assert (await caller.client.get("/projects", params={"limit": limit})).status_code == 200


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


BAD_CURSORS = [
    "x",
    "not a cursor",
    "====",
    "é",
    "🌿",
    _cursor("no slash"),
    _cursor("/id"),
    _cursor("soon/id"),
    _cursor("9" * 40 + "/id"),
    _cursor("-" + "9" * 40 + "/id"),
    _cursor("9" * 5000 + "/id"),
    _cursor("1/é"),
    _cursor("1/a\0b"),
    "A" * 10_000,
]


@pytest.mark.parametrize("cursor", BAD_CURSORS)
async def test_a_cursor_that_is_not_ours_is_refused(caller: Caller, cursor: str) -> None:
    project_id = await caller.create_ready_project()
    for path in ("/projects", f"/projects/{project_id}/operations"):
        response = await caller.client.get(path, params={"cursor": cursor})
        assert response.status_code == 400, response.text
        assert "cursor" in response.json()["message"]


async def test_operations_have_pages_too(caller: Caller) -> None:
    created = (await caller.create_project())["project"]["id"]
    platform = caller.api_app.platform
    async with platform.store.transaction() as rows:
        endpoint = (await rows.endpoints.list_in_project(ProjectId(created)))[0]
        requested = NewOperation.for_endpoint(ApplyConfig, endpoint)
        await platform.services.queue.enqueue(rows, [requested] * 5, "test")
    path = f"/projects/{created}/operations"
    every, cursor = await _page(caller, path)
    assert (len(every), cursor) == (7, None)
    assert await _all(caller, path, limit=2) == every
    for limit in (0, 1001):
        assert (await caller.client.get(path, params={"limit": limit})).status_code == 400
