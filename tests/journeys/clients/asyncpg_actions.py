"""Actions of asyncpg at the direct and the pooled host."""

import asyncio
from typing import Any

import asyncpg

from journeys.clients.host_override import override_host
from journeys.clients.statements import COUNT_SLEEPING, LARGE_RESULT, SLEEP

CLIENT = f"asyncpg {asyncpg.__version__}"


def prepare_uri(uri: str, address: str) -> str:
    """Returns the URI unchanged: asyncpg has no channel binding, and sends that option to the server as a setting."""
    override_host(uri, address)
    return uri


async def get_sqlstate(session: Any, statement: str) -> str | None:
    try:
        await session.execute(statement)
    except asyncpg.PostgresError as error:
        return str(error.sqlstate)
    return None


async def cancel(session: Any, other: Any) -> dict[str, Any]:
    """asyncpg cancels a query when its task is cancelled."""
    sleeping = asyncio.create_task(session.execute(SLEEP))
    while not await other.fetchval(COUNT_SLEEPING):
        pass
    sleeping.cancel()
    await asyncio.wait([sleeping])
    after = await session.fetchval("select 1")
    is_cancelled = await other.fetchval(COUNT_SLEEPING) == 0
    return {"cancelled": "57014" if is_cancelled else None, "after_cancel": after}


async def copy(session: Any, table: tuple[str, ...]) -> dict[str, Any]:
    for statement in table:
        await session.execute(statement)
    await session.copy_records_to_table("copied", records=[(n, f"word {n}") for n in range(10_000)])
    size = 0

    async def count_bytes(piece: bytes) -> None:
        nonlocal size
        size += len(piece)

    await session.copy_from_query("select * from copied order by n", output=count_bytes)
    return {"copied": await session.fetchval("select count(*) from copied"), "copied_bytes": size}


async def stream(session: Any) -> int:
    size = 0
    async with session.transaction():
        async for row in session.cursor(LARGE_RESULT, prefetch=100):
            size += len(row[0])
    return size


async def recover(session: Any) -> dict[str, Any]:
    transaction = session.transaction()
    await transaction.start()
    states = [await get_sqlstate(session, "select 1 / 0"), await get_sqlstate(session, "select 1")]
    await transaction.rollback()
    return {"refused": states, "recovered": await session.fetchval("select 7")}
