"""A pooled host in front of a new database, with a superuser session that bypasses the gateway."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg

from bough.domain.pooler import PoolSettings
from bough.gateway.wire.messages import ErrorResponse
from support import gateway as gateways
from support import protocol_messages
from support.gateway import HOST, ROLE, InProcessGateway
from support.postgres import PostgresServer
from support.protocol_client import POOLED_HOST, TIMEOUT, ProtocolClient, connect_pooled


class Pooler:
    def __init__(self, gateway: InProcessGateway, folder: Path, database: str, superuser: Any) -> None:
        self.gateway = gateway
        self.folder = folder  # of the Postgres socket
        self.database = database
        self.superuser = superuser  # a session that bypasses the gateway

    def configure(self, **settings: Any) -> None:
        """Set the endpoint's pool settings, before the first client connects."""
        self.gateway.control_plane.access_reply = replace(
            self.gateway.control_plane.access_reply, pool_settings=PoolSettings(**settings)
        )

    async def connect(self, **startup: str) -> ProtocolClient:
        return await connect_pooled(self.gateway, {"database": self.database, **startup})

    async def connect_many(self, count: int) -> list[ProtocolClient]:
        return [await self.connect() for _ in range(count)]

    async def connect_directly(self, **startup: str) -> ProtocolClient:
        return await connect_pooled(self.gateway, {"database": self.database, **startup}, host=HOST)

    async def expect_login_error(self, **startup: str) -> ErrorResponse:
        """Log in and return the error."""
        client = ProtocolClient(await self.gateway.open_wire_client())
        await client.wire.start_tls(host=POOLED_HOST, alpn="postgresql")
        client.wire.send_startup(0, **{"database": self.database, **startup})
        await client.wire.authenticate()
        return await client.read_error()

    async def cancel(self, client: ProtocolClient) -> None:
        """Send a cancel request, and wait until the gateway has handled it."""
        wire = await self.gateway.open_wire_client()
        wire.writer.write(protocol_messages.cancel_request(client.key))
        assert await wire.reader.read() == b""
        wire.close()

    async def list_server_pids(self) -> list[int]:
        """Return the process ids of all backends in the database except the superuser session."""
        sql = """select pid from pg_stat_activity
                    where datname = $1 and backend_type = 'client backend' and pid <> pg_backend_pid() order by pid"""
        return [row["pid"] for row in await self.superuser.fetch(sql, self.database)]

    async def wait_until(self, sql: str, *values: Any) -> None:
        """Poll until the query returns true."""
        async with asyncio.timeout(TIMEOUT):
            while not await self.superuser.fetchval(sql, *values):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def wait_until_running(self, text: str) -> None:
        """Wait until a query with this text is running."""
        await self.wait_until(
            "select exists (select from pg_stat_activity where datname = $1 and state = 'active' and query = $2)",
            self.database,
            text,
        )

    async def kill_server_connections(self) -> None:
        """Terminate all server connections, and wait until they are gone."""
        await self.wait_until_gone(await self.terminate_server_connections())

    async def terminate_server_connections(self) -> list[int]:
        pids = await self.list_server_pids()
        await self.superuser.execute("select pg_terminate_backend(pid) from unnest($1::int[]) pid", pids)
        return pids

    async def kill_unnoticed(self) -> None:
        """Terminate all server connections without running the event loop, so that the gateway does not notice."""
        pids = await self.list_server_pids()
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.001)  # noqa: ASYNC251

    async def wait_until_gone(self, pids: list[int]) -> None:
        await self.wait_until("select not exists (select from pg_stat_activity where pid = any($1::int[]))", pids)

    async def wait_until_no_server_connections(self) -> None:
        async with asyncio.timeout(TIMEOUT):
            while await self.list_server_pids():  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@asynccontextmanager
async def open_pooler(server: PostgresServer, workers: int = 1) -> AsyncIterator[Pooler]:
    database = f"pool_{secrets.token_hex(4)}"
    await server.create_database(database)
    superuser = await asyncpg.connect(host=str(server.folder), user=ROLE, database=database)
    try:
        async with gateways.open_gateway(server, workers=workers) as gateway:
            yield Pooler(gateway, server.folder, database, superuser)
    finally:
        await superuser.close()
        session = await server.connect()
        for row in await session.fetch("select datname from pg_database where datname like $1", f"{database}%"):
            await session.execute(f"drop database {row['datname']} with (force)")
        for row in await session.fetch("select rolname from pg_roles where rolname like $1", f"{database}_%"):
            await session.execute(f"drop role {row['rolname']}")
        await session.close()
