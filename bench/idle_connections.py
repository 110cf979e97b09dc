"""The memory that idle connections take in the gateway or pooler."""

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Any

import asyncpg

from bench import gateway_workers, machine
from bench.tls_postgres import Route
from bough.postgres import MAINTENANCE_DATABASE

CONNECTIONS = 200  # per round
_WARM_UP_CONNECTIONS = 10  # not counted: they cause the memory that all share
_SETTLE_SECONDS = 1.0


def measure_kib(route: Route, pids: Sequence[int]) -> float:
    """Return private memory of the processes per connection, when all are open and have sent one query."""
    return asyncio.run(_kib(route, pids))


async def _kib(route: Route, pids: Sequence[int]) -> float:
    first = [await _connect_and_query(route) for _ in range(_WARM_UP_CONNECTIONS)]
    before = machine.private_kib(pids)
    rest = [await _connect_and_query(route) for _ in range(CONNECTIONS)]
    await asyncio.sleep(_SETTLE_SECONDS)
    used = (machine.private_kib(pids) - before) / CONNECTIONS
    for each in (*first, *rest):
        await each.close()
    return used


async def _connect_and_query(route: Route) -> Any:
    """Send a simple query: asyncpg's extended queries take two transactions, which not every pooler supports."""
    session = await asyncpg.connect(
        host="127.0.0.1",
        port=route.port,
        user=gateway_workers.ROLE,
        password=gateway_workers.PASSWORD,
        database=MAINTENANCE_DATABASE,
        ssl=_any_certificate(),
        server_settings=dict(word.split("=", 1) for word in route.options.split()),
    )
    await session.execute("select 1")
    return session


@cache
def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
