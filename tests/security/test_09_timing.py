"""Who exists takes as much work to refuse as who does not: counted, because clocks of tests are noisy."""

import hmac
from collections import Counter
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

import door_world
import stores
import world
from bough.store.queries import Queries
from door_world import Door
from gateway.doorway import Wire
from security.logins import begun

NOWHERE = "ep-calm-sea-00000000"


@pytest.fixture(params=stores.SQLITE_EVERY_DAY)
async def door(request: pytest.FixtureRequest, postgres_server: world.PostgresServer) -> AsyncIterator[Door]:
    url = "" if request.param == "sqlite" else await postgres_server.new_store()
    async with door_world.door(store_url=url) as opened:
        yield opened


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """Questions to control, the statements on the store that each of them takes, and what is hashed."""
    counted: Counter[str] = Counter()
    is_asked = ContextVar("is_asked", default=False)  # the platform's own tasks use the store meanwhile
    access = door_world.PlaneHere.access

    async def counting_access(*given: Any) -> Any:
        counted["access"] += 1
        is_asked.set(True)
        try:
            return await access(*given)
        finally:
            is_asked.set(False)

    def count(owner: Any, name: str, *, only_asked: bool) -> None:
        real = getattr(owner, name)

        def counting(*given: Any, **named: Any) -> Any:
            counted[name] += is_asked.get() or not only_asked
            return real(*given, **named)

        monkeypatch.setattr(owner, name, counting)

    for name in ("_one", "_all", "_run"):
        count(Queries, name, only_asked=True)
    for name in ("digest", "compare_digest"):
        count(hmac, name, only_asked=False)
    monkeypatch.setattr(door_world.PlaneHere, "access", counting_access)
    return counted


async def challenged(door: Door, endpoint: str, role: str) -> Wire:
    return await begun(door.way, user=role, options=f"endpoint={endpoint}")


async def unfinished(door: Door, endpoint: str, role: str) -> None:
    wire = await challenged(door, endpoint, role)
    assert (await wire.message()).body[:4] == (10).to_bytes(4)
    wire.close()
    await wire.writer.wait_closed()


async def refused(door: Door, endpoint: str, role: str) -> None:
    wire = await challenged(door, endpoint, role)
    await wire.log_in("wrong")
    assert (await wire.trouble()).code == "28P01"


@pytest.mark.parametrize("login", [unfinished, refused])
async def test_known_and_unknown_take_the_same_work(door: Door, work: "Counter[str]", login: Any) -> None:
    made = await door.platform.create_project()
    endpoint = made["endpoints"][0]["id"]
    await door.platform.settle()
    took: dict[str, list[Counter[str]]] = {}
    for kind, where, role in (
        ("known", endpoint, "neondb_owner"),
        ("no role", endpoint, "nobody"),
        ("no endpoint", NOWHERE, "neondb_owner"),
    ):
        for _ in range(3):  # the first is asked for, the others may be remembered
            work.clear()
            await login(door, where, role)
            took.setdefault(kind, []).append(Counter(work))
    assert took["known"][0]["access"] == 1
    assert took["known"] == took["no role"] == took["no endpoint"]
