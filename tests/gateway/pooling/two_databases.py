"""Where clients and their twins live: two databases made alike, and a look at what was done in them."""

import asyncio
from typing import Any

import asyncpg

from gateway.auth.client import stored
from gateway.doorway import PASSWORD, ROLE, Wire
from gateway.planes import access
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Speaker

PATIENCE = 8.0
WORKER = "worker"

_TABLES = """
    create table tokens (id integer);
    create table maybes (id integer, half integer);
    create schema a; create table a.place as select 'in a' as name;
    create schema b; create table b.place as select 'in b' as name;
    create table place as select 'in public' as name;
    grant usage on schema a, b to public;
    grant all on all tables in schema public, a, b to public;
    create function hide() returns void language plpgsql as
        $$ begin perform set_config('app.hidden', 'secret', false); end $$;
"""


async def twin(pooler: Pooler, **startup: str) -> Speaker:
    """At Postgres's own socket, which trusts everybody."""
    speaker = Speaker(Wire(*await asyncio.open_unix_connection(pooler.folder / ".s.PGSQL.5432")))
    speaker.patience = PATIENCE
    speaker.wire.start(0, database=twins_database(pooler), **startup)
    await speaker.answer()
    return speaker


def twins_database(pooler: Pooler) -> str:
    return f"{pooler.database}_twins"


async def prepare(pooler: Pooler) -> None:
    """Both databases, and logins that cost little because there are many of them."""
    pooler.doorway.plane.answer = access(stored(PASSWORD.encode(), b"0123456789abcdef", 1))
    await pooler.behind.execute(f"create role {pooler.database}_{WORKER}")
    await pooler.behind.execute(f"create database {twins_database(pooler)}")
    for database in (pooler.database, twins_database(pooler)):
        session = await _look(pooler, database)
        await session.execute(_TABLES)
        await session.close()


async def forget(pooler: Pooler) -> None:
    """Nobody is there and nothing was done, so that an example does not depend on those before it."""
    await pooler.kill_members()
    await pooler.behind.execute("truncate tokens, maybes")
    session = await _look(pooler, twins_database(pooler))
    await session.execute("truncate tokens, maybes")
    await session.close()


async def tokens(pooler: Pooler, database: str) -> list[int]:
    session = await _look(pooler, database)
    rows = await session.fetch("select id from tokens order by id")
    await session.close()
    return [row["id"] for row in rows]


async def halves(pooler: Pooler) -> dict[int, list[int]]:
    """Of what clients said with their last breath: nothing or all of it may have been done."""
    found: dict[int, list[int]] = {}
    for row in await pooler.behind.fetch("select id, half from maybes order by id, half"):
        found.setdefault(row["id"], []).append(row["half"])
    return found


async def _look(pooler: Pooler, database: str) -> Any:
    return await asyncpg.connect(host=str(pooler.folder), user=ROLE, database=database)
