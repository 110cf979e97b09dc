"""Who exists takes as much work to refuse as who does not: counted, because clocks of tests are noisy."""

import hmac
from collections import Counter
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from bough.store.queries import Queries
from security.login_steps import send_startup
from support import platform_gateway
from support.gateway import WireClient
from support.platform_gateway import PlatformGateway
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS

NOWHERE = "ep-calm-sea-00000000"


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def gateway(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[PlatformGateway]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with platform_gateway.open_platform_gateway(store_url=url) as opened:
        yield opened


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """Questions to control, the statements on the store that each of them takes, and what is hashed."""
    counted: Counter[str] = Counter()
    is_asked = ContextVar("is_asked", default=False)  # the platform's own tasks use the store meanwhile
    access = platform_gateway.InProcessControlPlane.get_access

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
    monkeypatch.setattr(platform_gateway.InProcessControlPlane, "get_access", counting_access)
    return counted


async def challenged(door: PlatformGateway, endpoint: str, role: str) -> WireClient:
    return await send_startup(door.gateway, user=role, options=f"endpoint={endpoint}")


async def unfinished(door: PlatformGateway, endpoint: str, role: str) -> None:
    wire = await challenged(door, endpoint, role)
    assert (await wire.read_message()).body[:4] == (10).to_bytes(4)
    wire.close()
    await wire.writer.wait_closed()


async def refused(door: PlatformGateway, endpoint: str, role: str) -> None:
    wire = await challenged(door, endpoint, role)
    await wire.authenticate("wrong")
    assert (await wire.read_error()).sqlstate == "28P01"


@pytest.mark.parametrize("login", [unfinished, refused])
async def test_known_and_unknown_take_the_same_work(gateway: PlatformGateway, work: "Counter[str]", login: Any) -> None:
    made = await gateway.platform.create_project()
    endpoint = made["endpoints"][0]["id"]
    await gateway.platform.run_operations()
    took: dict[str, list[Counter[str]]] = {}
    for kind, where, role in (
        ("known", endpoint, "neondb_owner"),
        ("no role", endpoint, "nobody"),
        ("no endpoint", NOWHERE, "neondb_owner"),
    ):
        for _ in range(3):  # the first is asked for, the others may be remembered
            work.clear()
            await login(gateway, where, role)
            took.setdefault(kind, []).append(Counter(work))
    assert took["known"][0]["access"] == 1
    assert took["known"] == took["no role"] == took["no endpoint"]
