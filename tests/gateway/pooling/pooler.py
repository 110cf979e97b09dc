"""A pooled host in front of a database of its own, and a look behind it."""

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

import world
from bough.gateway.plane import PoolSettings
from bough.gateway.wire.messages import Trouble
from gateway import doorway as doorways
from gateway.doorway import HOST, ROLE, Doorway
from gateway.pooling import phrases
from gateway.pooling.speaking import PATIENCE, POOLED, Speaker, pooled


class Pooler:
    def __init__(self, doorway: Doorway, folder: Path, database: str, behind: Any) -> None:
        self.doorway = doorway
        self.folder = folder  # of Postgres's socket
        self.database = database
        self.behind = behind  # a session of the superuser, past the gateway

    def set(self, **settings: Any) -> None:
        """What control says of the endpoint's pools, before the first client comes."""
        self.doorway.plane.answer = replace(self.doorway.plane.answer, pool=PoolSettings(**settings))

    async def client(self, **startup: str) -> Speaker:
        return await pooled(self.doorway, {"database": self.database, **startup})

    async def clients(self, count: int) -> list[Speaker]:
        return [await self.client() for _ in range(count)]

    async def direct(self, **startup: str) -> Speaker:
        return await pooled(self.doorway, {"database": self.database, **startup}, host=HOST)

    async def refused(self, **startup: str) -> Trouble:
        """What someone hears who is not let in."""
        speaker = Speaker(await self.doorway.wire())
        await speaker.wire.encrypt(host=POOLED, alpn="postgresql")
        speaker.wire.start(0, **{"database": self.database, **startup})
        await speaker.wire.log_in()
        return await speaker.trouble()

    async def cancel(self, speaker: Speaker) -> None:
        """Over a connection of its own, until the gateway has heard it."""
        wire = await self.doorway.wire()
        wire.writer.write(phrases.cancel_request(speaker.key))
        assert await wire.reader.read() == b""
        wire.close()

    async def members(self) -> list[int]:
        """Process ids of all who are connected with the database, but for our own look at it."""
        asked = """select pid from pg_stat_activity
                    where datname = $1 and backend_type = 'client backend' and pid <> pg_backend_pid() order by pid"""
        return [row["pid"] for row in await self.behind.fetch(asked, self.database)]

    async def waits_until(self, sql: str, *values: Any) -> None:
        """Until Postgres says that it is so; in another process, so one can only look again."""
        async with asyncio.timeout(PATIENCE):
            while not await self.behind.fetchval(sql, *values):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def runs(self, text: str) -> None:
        """Until a query with this text is under way."""
        await self.waits_until(
            "select exists (select from pg_stat_activity where datname = $1 and state = 'active' and query = $2)",
            self.database,
            text,
        )

    async def kill_members(self) -> None:
        """As an administrator does it, and Postgres when it stops; until they are gone."""
        await self.are_gone(await self.start_killing())

    async def start_killing(self) -> list[int]:
        pids = await self.members()
        await self.behind.execute("select pg_terminate_backend(pid) from unnest($1::int[]) pid", pids)
        return pids

    async def kill_unnoticed(self) -> None:
        """Nothing else happens in this process meanwhile, so the gateway learns of it when it next says something."""
        pids = await self.members()
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.001)  # noqa: ASYNC251

    async def are_gone(self, pids: list[int]) -> None:
        await self.waits_until("select not exists (select from pg_stat_activity where pid = any($1::int[]))", pids)

    async def has_no_members(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.members():  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@asynccontextmanager
async def opened(server: world.PostgresServer, workers: int = 1) -> AsyncIterator[Pooler]:
    database = f"pool_{secrets.token_hex(4)}"
    await server.new_database(database)
    behind = await asyncpg.connect(host=str(server.folder), user=ROLE, database=database)
    try:
        async with doorways.doorway(server, workers=workers) as doorway:
            yield Pooler(doorway, server.folder, database, behind)
    finally:
        await behind.close()
        session = await server._connect()
        for row in await session.fetch("select datname from pg_database where datname like $1", f"{database}%"):
            await session.execute(f"drop database {row['datname']} with (force)")
        for row in await session.fetch("select rolname from pg_roles where rolname like $1", f"{database}_%"):
            await session.execute(f"drop role {row['rolname']}")
        await session.close()
