"""Rule 9: rejecting a known and an unknown role takes the same work, which is counted because timings are noisy."""

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

UNKNOWN_ENDPOINT = "ep-calm-sea-00000000"


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def gateway(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[PlatformGateway]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with platform_gateway.open_platform_gateway(store_url=url) as opened:
        yield opened


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """Counts requests to control, the store statements that they execute, and hash computations."""
    counted: Counter[str] = Counter()
    in_request = ContextVar("in_request", default=False)  # the platform's own tasks also use the store
    get_access = platform_gateway.InProcessControlPlane.get_access

    async def count_get_access(*args: Any) -> Any:
        counted["access"] += 1
        in_request.set(True)
        try:
            return await get_access(*args)
        finally:
            in_request.set(False)

    def count(owner: Any, name: str, *, only_in_requests: bool) -> None:
        original = getattr(owner, name)

        def count_and_call(*args: Any, **kwargs: Any) -> Any:
            counted[name] += in_request.get() or not only_in_requests
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, count_and_call)

    for name in ("_one", "_all", "_run"):
        count(Queries, name, only_in_requests=True)
    for name in ("digest", "compare_digest"):
        count(hmac, name, only_in_requests=False)
    monkeypatch.setattr(platform_gateway.InProcessControlPlane, "get_access", count_get_access)
    return counted


async def start_login(gateway: PlatformGateway, endpoint: str, role: str) -> WireClient:
    return await send_startup(gateway.gateway, user=role, options=f"endpoint={endpoint}")


async def leave_unfinished(gateway: PlatformGateway, endpoint: str, role: str) -> None:
    wire = await start_login(gateway, endpoint, role)
    assert (await wire.read_message()).body[:4] == (10).to_bytes(4)
    wire.close()
    await wire.writer.wait_closed()


async def fail_login(gateway: PlatformGateway, endpoint: str, role: str) -> None:
    wire = await start_login(gateway, endpoint, role)
    await wire.authenticate("wrong")
    assert (await wire.read_error()).sqlstate == "28P01"


@pytest.mark.parametrize("login", [leave_unfinished, fail_login])
async def test_known_and_unknown_take_the_same_work(gateway: PlatformGateway, work: "Counter[str]", login: Any) -> None:
    created = await gateway.platform.create_project()
    endpoint = created["endpoints"][0]["id"]
    await gateway.platform.run_operations()
    work_by_kind: dict[str, list[Counter[str]]] = {}
    for kind, where, role in (
        ("known", endpoint, "neondb_owner"),
        ("no role", endpoint, "nobody"),
        ("no endpoint", UNKNOWN_ENDPOINT, "neondb_owner"),
    ):
        for _ in range(3):  # the first goes to control; the others may come from the cache
            work.clear()
            await login(gateway, where, role)
            work_by_kind.setdefault(kind, []).append(Counter(work))
    assert work_by_kind["known"][0]["access"] == 1
    assert work_by_kind["known"] == work_by_kind["no role"] == work_by_kind["no endpoint"]
