"""Where clients and their twins live: two databases made alike, and a look at what was done in them."""

import asyncio
from typing import Any

import asyncpg

from support.control_plane import make_access
from support.gateway import PASSWORD, ROLE, WireClient
from support.pooler import Pooler
from support.protocol_client import ProtocolClient
from support.scram_client import make_verifier

TIMEOUT = 8.0
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


async def connect_reference(pooler: Pooler, **startup: str) -> ProtocolClient:
    """At Postgres's own socket, which trusts everybody."""
    speaker = ProtocolClient(WireClient(*await asyncio.open_unix_connection(pooler.folder / ".s.PGSQL.5432")))
    speaker.timeout = TIMEOUT
    speaker.wire.send_startup(0, database=reference_database_name(pooler), **startup)
    await speaker.read_reply()
    return speaker


def reference_database_name(pooler: Pooler) -> str:
    return f"{pooler.database}_twins"


async def create_databases(pooler: Pooler) -> None:
    """Both databases, and logins that cost little because there are many of them."""
    pooler.gateway.control_plane.access_reply = make_access(make_verifier(PASSWORD.encode(), b"0123456789abcdef", 1))
    await pooler.superuser.execute(f"create role {pooler.database}_{WORKER}")
    await pooler.superuser.execute(f"create database {reference_database_name(pooler)}")
    for database in (pooler.database, reference_database_name(pooler)):
        session = await _connect(pooler, database)
        await session.execute(_TABLES)
        await session.close()


async def reset_databases(pooler: Pooler) -> None:
    """Nobody is there and nothing was done, so that an example does not depend on those before it."""
    await pooler.kill_server_connections()
    await pooler.superuser.execute("truncate tokens, maybes")
    session = await _connect(pooler, reference_database_name(pooler))
    await session.execute("truncate tokens, maybes")
    await session.close()


async def list_tokens(pooler: Pooler, database: str) -> list[int]:
    session = await _connect(pooler, database)
    rows = await session.fetch("select id from tokens order by id")
    await session.close()
    return [row["id"] for row in rows]


async def list_halves(pooler: Pooler) -> dict[int, list[int]]:
    """Of what clients said with their last breath: nothing or all of it may have been done."""
    found: dict[int, list[int]] = {}
    for row in await pooler.superuser.fetch("select id, half from maybes order by id, half"):
        found.setdefault(row["id"], []).append(row["half"])
    return found


async def _connect(pooler: Pooler, database: str) -> Any:
    return await asyncpg.connect(host=str(pooler.folder), user=ROLE, database=database)
