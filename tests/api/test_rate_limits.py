"""Rate limits: 429 with Retry-After per key, per key and route, and per address without a key."""

from collections.abc import Callable

import httpx2
import pytest

from bough import clock
from support.api_app import NO_LIMITS, ApiApp
from support.api_client import Caller


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Stops the clock; calling the result advances it."""
    now = 1000.0

    def let_pass(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(clock, "monotonic", lambda: now)
    return let_pass


async def _statuses(client: httpx2.AsyncClient, path: str, count: int) -> list[int]:
    return [(await client.get(path)).status_code for _ in range(count)]


async def _refusal(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    response = await client.get(path)
    assert response.status_code == 429, response.text
    assert set(response.json()) == {"request_id", "code", "message"}
    return response


def test_the_limits_are_those_of_the_contract_unless_set(api_app: ApiApp) -> None:
    defaults = type(api_app.settings)()
    assert (defaults.rate_per_minute, defaults.rate_per_second_and_route) == (700, 40)
    assert set(NO_LIMITS) <= set(type(defaults).model_fields)


async def test_a_key_has_so_many_requests_a_minute(
    api_app: ApiApp, caller: Caller, advance_clock: Callable[[float], None]
) -> None:
    async with caller.client_for(ApiApp(api_app.platform, rate_per_minute=6)) as client:
        assert await _statuses(client, "/auth", 3) + await _statuses(client, "/regions", 3) == [200] * 6
        response = await _refusal(client, "/users/me")
        assert response.headers["retry-after"] == "10"
        assert "6 requests per minute" in response.json()["message"]
        advance_clock(4)
        assert (await _refusal(client, "/auth")).headers["retry-after"] == "6"
        advance_clock(6)
        assert await _statuses(client, "/auth", 2) == [200, 429]
        advance_clock(3600)
        assert await _statuses(client, "/auth", 7) == [200] * 6 + [429]


async def test_a_key_has_so_many_requests_a_second_on_each_route(
    api_app: ApiApp, caller: Caller, advance_clock: Callable[[float], None]
) -> None:
    project_id = await caller.create_ready_project()
    async with caller.client_for(ApiApp(api_app.platform, rate_per_second_and_route=3)) as client:
        assert await _statuses(client, "/projects", 3) == [200] * 3
        response = await _refusal(client, "/projects")
        assert response.headers["retry-after"] == "1"
        assert "3 requests per second" in response.json()["message"]
        assert await _statuses(client, "/auth", 3) == [200] * 3
        assert (await client.post("/projects", json={"project": {}})).status_code == 201
        assert await _statuses(client, f"/projects/{project_id}", 2) == [200, 200]
        assert await _statuses(client, "/projects/no-such-project", 2) == [404, 429]
        advance_clock(1 / 3)
        assert await _statuses(client, "/projects", 2) == [200, 429]


async def test_a_bad_request_counts_like_a_good_one(
    api_app: ApiApp, caller: Caller, advance_clock: Callable[[float], None]
) -> None:
    async with caller.client_for(ApiApp(api_app.platform, rate_per_minute=3)) as client:
        headers = {"Content-Type": "application/json"}
        statuses = [(await client.post("/projects", content=b"{", headers=headers)).status_code for _ in range(4)]
        assert statuses == [400, 400, 400, 429]


async def test_one_key_does_not_spend_anothers(
    api_app: ApiApp, caller: Caller, stranger: Caller, advance_clock: Callable[[float], None]
) -> None:
    narrow = ApiApp(api_app.platform, rate_per_minute=2)
    async with (
        caller.client_for(narrow) as one,
        stranger.client_for(narrow) as other,
        narrow.client(await caller.create_key()) as third,
    ):
        assert await _statuses(one, "/auth", 3) == [200, 200, 429]
        assert await _statuses(other, "/auth", 3) == [200, 200, 429]
        assert await _statuses(third, "/auth", 1) == [200]


async def test_without_a_key_an_address_has_so_many_requests_a_minute(
    api_app: ApiApp, caller: Caller, advance_clock: Callable[[float], None]
) -> None:
    narrow = ApiApp(api_app.platform, rate_per_minute_and_address=3)
    async with narrow.client() as anonymous, narrow.client("bough_key_guess") as guesser:
        assert await _statuses(anonymous, "/projects", 2) + await _statuses(guesser, "/auth", 1) == [401] * 3
        assert (await _refusal(guesser, "/auth")).headers["retry-after"] == "20"
        await _refusal(anonymous, "/regions")
        advance_clock(20)
        assert await _statuses(anonymous, "/auth", 2) == [401, 429]
    async with narrow.client(address="192.0.2.7") as elsewhere, caller.client_for(narrow) as known:
        assert await _statuses(elsewhere, "/auth", 1) == [401]
        assert await _statuses(known, "/auth", 5) == [200] * 5


async def test_health_is_not_limited(api_app: ApiApp, advance_clock: Callable[[float], None]) -> None:
    async with ApiApp(api_app.platform, rate_per_minute_and_address=1).client() as client:
        assert await _statuses(client, "http://bough/healthz", 5) == [200] * 5
