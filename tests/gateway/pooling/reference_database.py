"""Two identical databases, for clients and their references, and checks of their contents."""

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
    """Connect to the socket of Postgres, which trusts every user."""
    client = ProtocolClient(WireClient(*await asyncio.open_unix_connection(pooler.folder / ".s.PGSQL.5432")))
    client.timeout = TIMEOUT
    client.wire.send_startup(0, database=reference_database_name(pooler), **startup)
    await client.read_reply()
    return client


def reference_database_name(pooler: Pooler) -> str:
    return f"{pooler.database}_twins"


async def create_databases(pooler: Pooler) -> None:
    """Create both databases, and set a password that is cheap to verify, because there are many logins."""
    pooler.gateway.control_plane.access_reply = make_access(make_verifier(PASSWORD.encode(), b"0123456789abcdef", 1))
    await pooler.superuser.execute(f"create role {pooler.database}_{WORKER}")
    await pooler.superuser.execute(f"create database {reference_database_name(pooler)}")
    for database in (pooler.database, reference_database_name(pooler)):
        session = await _connect(pooler, database)
        await session.execute(_TABLES)
        await session.close()


async def reset_databases(pooler: Pooler) -> None:
    """Disconnect all clients and empty all tables, so that examples are independent."""
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
    """Check that each interrupted transaction was done completely or not at all."""
    found: dict[int, list[int]] = {}
    for row in await pooler.superuser.fetch("select id, half from maybes order by id, half"):
        found.setdefault(row["id"], []).append(row["half"])
    return found


async def _connect(pooler: Pooler, database: str) -> Any:
    return await asyncpg.connect(host=str(pooler.folder), user=ROLE, database=database)
