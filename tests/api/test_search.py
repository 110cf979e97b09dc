"""Filtering the list of projects by text, by organization, and by recoverability."""

import pytest

from support.api_client import Caller

NAMES = [
    "Blog of Émile",
    "Hauptstrasse",
    "HAUPTSTRASSE 2",
    "ПРОЕКТ ЛЕНИН",
    "100% done",
    "snake_case",
    "back\\slash",
    "green 🌿",
]
FOUND = {
    "blog": ["Blog of Émile"],
    "BLOG": ["Blog of Émile"],
    "émile": ["Blog of Émile"],
    "ÉMILE": ["Blog of Émile"],
    "straße": ["Hauptstrasse", "HAUPTSTRASSE 2"],
    "Ленин": ["ПРОЕКТ ЛЕНИН"],
    "100%": ["100% done"],
    "%": ["100% done"],
    "_": ["snake_case"],
    "e_c": ["snake_case"],
    "\\": ["back\\slash"],
    "🌿": ["green 🌿"],
    " ": ["100% done", "Blog of Émile", "HAUPTSTRASSE 2", "green 🌿", "ПРОЕКТ ЛЕНИН"],
    "nothing of this kind": [],
    "'; drop table projects; --": [],
}


async def test_search_reads_names_without_case_and_without_wildcards(caller: Caller) -> None:
    for name in NAMES:
        await caller.create_project(name=name)
    found = {search: sorted(await caller.list_project_names(search=search, limit=400)) for search in FOUND}
    assert found == {search: sorted(names) for search, names in FOUND.items()}


async def test_search_finds_an_id_or_a_part_of_it(caller: Caller) -> None:
    created = (await caller.create_project(name="wanted"))["project"]["id"]
    await caller.create_project(name="other")
    assert await caller.list_project_names(search=created) == ["wanted"]
    assert await caller.list_project_names(search=created[-8:].upper()) == ["wanted"]


async def test_an_empty_search_finds_all(caller: Caller) -> None:
    await caller.create_project(name="one")
    assert await caller.list_project_names(search="") == ["one"]
    assert (await caller.client.get("/projects", params={"search": "x" * 257})).status_code == 400


async def test_a_new_name_is_found_and_the_old_one_is_not(caller: Caller) -> None:
    project_id = await caller.create_ready_project(name="before")
    await caller.client.patch(f"/projects/{project_id}", json={"project": {"name": "after"}})
    assert await caller.list_project_names(search="before") == []
    assert await caller.list_project_names(search="after") == ["after"]


async def test_nobody_sees_the_projects_of_another(caller: Caller, stranger: Caller) -> None:
    await caller.create_project(name="mine")
    await stranger.create_project(name="theirs")
    assert await caller.list_project_names() == ["mine"]
    assert await caller.list_project_names(search="theirs") == []
    assert await caller.list_project_names(org_id=caller.organization.id) == ["mine"]


@pytest.mark.parametrize("recoverable", [False, True])
async def test_the_organization_of_another_is_not_found(caller: Caller, stranger: Caller, recoverable: bool) -> None:
    for org_id in (stranger.organization.id, "org-no-such-thing"):
        response = await caller.client.get("/projects", params={"org_id": org_id, "recoverable": recoverable})
        assert response.status_code == 404
        assert response.json()["message"].startswith("The requested organization could not be found")


async def test_deleted_projects_are_in_the_other_list(caller: Caller) -> None:
    await caller.create_ready_project(name="living")
    gone = await caller.create_ready_project(name="gone")
    deleted = (await caller.client.delete(f"/projects/{gone}")).json()["project"]
    assert await caller.list_project_names() == ["living"]
    response = await caller.client.get("/projects", params={"recoverable": True, "org_id": caller.organization.id})
    (shown,) = response.json()["projects"]
    assert (shown["name"], shown["id"]) == ("gone", deleted["id"])
    assert shown["recoverable_until"] > shown["deleted_at"]
    assert await caller.list_project_names(recoverable=True, search="living") == []


async def test_the_words_of_a_flag(caller: Caller) -> None:
    await caller.create_project(name="living")
    assert await caller.list_project_names(recoverable="false") == ["living"]
    assert await caller.list_project_names(recoverable="true") == []
    assert (await caller.client.get("/projects", params={"recoverable": "perhaps"})).status_code == 400
