"""What asyncpg does at either host."""

import asyncio
from typing import Any

import asyncpg

from journeys.clients.host_override import override_host
from journeys.clients.statements import COUNT_SLEEPING, LARGE_RESULT, SLEEP

CLIENT = f"asyncpg {asyncpg.__version__}"


def prepare_uri(uri: str, address: str) -> str:
    """As it is: asyncpg cannot bind, and sends the word to the server as if it were a setting."""
    override_host(uri, address)
    return uri


async def get_sqlstate(one: Any, statement: str) -> str | None:
    try:
        await one.execute(statement)
    except asyncpg.PostgresError as error:
        return str(error.sqlstate)
    return None


async def cancel(one: Any, other: Any) -> dict[str, Any]:
    """asyncpg cancels what nobody awaits any longer."""
    sleeping = asyncio.create_task(one.execute(SLEEP))
    while not await other.fetchval(COUNT_SLEEPING):
        pass
    sleeping.cancel()
    await asyncio.wait([sleeping])
    after = await one.fetchval("select 1")
    is_over = await other.fetchval(COUNT_SLEEPING) == 0
    return {"cancelled": "57014" if is_over else None, "after_cancel": after}


async def copy(one: Any, table: tuple[str, ...]) -> dict[str, Any]:
    for statement in table:
        await one.execute(statement)
    await one.copy_records_to_table("copied", records=[(n, f"word {n}") for n in range(10_000)])
    size = 0

    async def take(piece: bytes) -> None:
        nonlocal size
        size += len(piece)

    await one.copy_from_query("select * from copied order by n", output=take)
    return {"copied": await one.fetchval("select count(*) from copied"), "copied_bytes": size}


async def stream(one: Any) -> int:
    size = 0
    async with one.transaction():
        async for row in one.cursor(LARGE_RESULT, prefetch=100):
            size += len(row[0])
    return size


async def recover(one: Any) -> dict[str, Any]:
    transaction = one.transaction()
    await transaction.start()
    states = [await get_sqlstate(one, "select 1 / 0"), await get_sqlstate(one, "select 1")]
    await transaction.rollback()
    return {"refused": states, "recovered": await one.fetchval("select 7")}
