"""Accounts that the operator creates and resets."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import pytest_asyncio

from bough import clock
from bough.domain.api_key import KeyKind
from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.domain.session import Session
from bough.ids import UserId
from support.api_app import ApiApp
from support.api_client import Caller


@pytest_asyncio.fixture(loop_scope="session")
async def operator(api_app: ApiApp) -> AsyncIterator[httpx2.AsyncClient]:
    async with api_app.client(api_app.platform.key) as client:
        yield client


def address_of(caller: Caller) -> str:
    """Returns an unused e-mail address."""
    return f"new-{caller.user.id}@example.com"


async def link_in(app: ApiApp, link: str) -> OneTimeLink | None:
    token = parse_qs(urlsplit(link).query)["token"][0]
    async with app.services.store.read() as rows:
        return await rows.links.get(app.services.keys.digest(token), LinkPurpose.RESET, clock.now())


async def test_an_account_has_an_organization_and_a_link_that_sets_its_password(
    api_app: ApiApp, caller: Caller, operator: httpx2.AsyncClient
) -> None:
    email = address_of(caller)
    response = await operator.post("/bough/users", json={"email": f" {email.upper()} ", "name": "Ada"})
    assert response.status_code == 201, response.text
    user, link = response.json()["user"], response.json()["link"]
    assert (user["email"], user["name"], user["plan"], user["can_sign_in"]) == (email, "Ada", "free", False)
    assert link.startswith("http://127.0.0.1:")
    kept = await link_in(api_app, link)
    assert kept is not None
    assert kept.user_id == user["id"]
    async with api_app.services.store.read() as rows:
        home = await rows.organizations.get_personal(UserId(user["id"]))
    assert home is not None
    listed = (await operator.get("/bough/users")).json()["users"]
    assert user in listed
    assert listed[0]["id"] == (await operator.get("/users/me")).json()["id"], "the first is the operator"
    (line,) = (await operator.get("/bough/audit", params={"action": "create_user", "limit": 1})).json()["audit"]
    assert line["thing"] == email


async def test_an_address_is_one_accounts(caller: Caller, operator: httpx2.AsyncClient) -> None:
    response = await operator.post("/bough/users", json={"email": caller.user.email.upper()})
    assert response.status_code == 409
    assert caller.user.email in response.json()["message"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"email": ""},
        {"email": "ada"},
        {"email": "a@b@c"},
        {"email": 7},
        {"email": f"{'x' * 300}@example.com"},
        {"email": "ada@example.com", "name": "x" * 257},
        {"email": "ada@example.com", "name": "a\0b"},
    ],
)
async def test_what_is_no_address_or_name_is_refused(operator: httpx2.AsyncClient, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    response = await operator.post("/bough/users", content=json.dumps(body), headers=headers)
    assert response.status_code == 400, response.text


async def test_a_reset_ends_sessions_and_links_and_nobody_elses(
    api_app: ApiApp, caller: Caller, stranger: Caller, operator: httpx2.AsyncClient
) -> None:
    now = clock.now()
    async with api_app.services.store.transaction() as rows:
        for each in (caller, stranger):
            await rows.sessions.add(
                Session(
                    digest=f"session-{each.user.id}",
                    user_id=each.user.id,
                    address="",
                    agent="",
                    created_at=now,
                    expires_at=now + timedelta(days=1),
                )
            )
    path = f"/bough/users/{caller.user.id}/reset"
    first, second = [(await operator.post(path)).json()["link"] for _ in range(2)]
    assert await link_in(api_app, first) is None
    assert await link_in(api_app, second) is not None
    async with api_app.services.store.read() as rows:
        assert await rows.sessions.list_by_user(caller.user.id, now) == []
        assert len(await rows.sessions.list_by_user(stranger.user.id, now)) == 1
    assert (await caller.client.get("/auth")).status_code == 200, "keys go on working"


async def test_who_is_not_there_cannot_be_reset(operator: httpx2.AsyncClient) -> None:
    assert (await operator.post("/bough/users/00000000-0000-4000-8000-0000000000ff/reset")).status_code == 404
    assert (await operator.post("/bough/users/ada@example.com/reset")).status_code == 400


async def test_accounts_are_the_operators_business(api_app: ApiApp, caller: Caller) -> None:
    for token in (caller.token, await caller.create_key(KeyKind.ORGANIZATION)):
        async with api_app.client(token) as client:
            answers = [
                await client.get("/bough/users"),
                await client.post("/bough/users", json={"email": address_of(caller)}),
                await client.post("/bough/users", json={"email": "no address"}),
                await client.post(f"/bough/users/{caller.user.id}/reset"),
            ]
        assert [response.status_code for response in answers] == [403] * 4
    async with api_app.services.store.read() as rows:
        assert await rows.users.get_by_email(address_of(caller)) is None
