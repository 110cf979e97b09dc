"""Numbered rows under load, and marks between them: a moment and a position, and what was committed by then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from support.branches import Json
from support.platform import Platform

TABLE = "create table numbered (id int primary key, filling text not null)"
_INSERT = "insert into numbered values ($1, repeat('x', 200))"
_IDS = "select id from numbered"
_POSITION = "select pg_current_wal_insert_lsn()::text"
_WRITERS = 3
_ROWS_BETWEEN = 20
_ROLE, _DATABASE = "neondb_owner", "neondb"


@dataclass(frozen=True, slots=True)
class JournalMark:
    at: datetime
    lsn: str
    rows: frozenset[int]


@dataclass(slots=True)
class WriteJournal:
    """What was committed to the branch in an answer, and the marks that can be gone back to."""

    platform: Platform
    creation_response: Json
    rows: set[int] = field(default_factory=set)
    marks: list[JournalMark] = field(default_factory=list)
    _next: int = 0
    _writing: int = 0  # transactions under way
    _open: asyncio.Event = field(default_factory=asyncio.Event)  # whether one may begin

    async def create_table(self) -> None:
        await self.platform.query(self.creation_response, TABLE)

    async def write(self, marks: int) -> None:
        """Several clients write at once; between their transactions so many marks are made."""
        self._open.set()
        busy = [asyncio.create_task(self._keep_writing()) for _ in range(_WRITERS)]
        try:
            async with self._connect() as client:
                for _ in range(marks):
                    await self._wait_for_rows(busy)
                    await self._pause_writers()
                    position = await client.fetchval(_POSITION)
                    self.marks.append(JournalMark(datetime.now(UTC), position, frozenset(self.rows)))
                    await asyncio.sleep(0.002)
                    self._open.set()
                await self._wait_for_rows(busy)
                await self._pause_writers()
        finally:
            for task in busy:
                task.cancel()
            await asyncio.gather(*busy, return_exceptions=True)

    async def _wait_for_rows(self, busy: list["asyncio.Task[None]"]) -> None:
        until = len(self.rows) + _ROWS_BETWEEN
        while len(self.rows) < until:
            await asyncio.sleep(0.005)
            for task in busy:
                if task.done():
                    task.result()

    async def _pause_writers(self) -> None:
        """Nobody is in a transaction, or begins one."""
        self._open.clear()
        while self._writing:  # noqa: ASYNC110 - of ours alone
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.002)

    async def read_rows(self) -> set[int]:
        async with self._connect() as client:
            return {row["id"] for row in await client.fetch(_IDS)}

    def record_restore(self, to: JournalMark) -> None:
        """From now on the branch has what it had then; moments between then and now mean that one."""
        self.rows = set(to.rows)
        self.marks = [each if each.at <= to.at else JournalMark(each.at, "", to.rows) for each in self.marks]

    async def _keep_writing(self) -> None:
        async with self._connect() as client:
            while True:
                await self._open.wait()
                number, self._next = self._next, self._next + 1
                self._writing += 1
                await client.execute(_INSERT, number)
                self.rows.add(number)
                self._writing -= 1

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        endpoint = self.creation_response["endpoints"][0]["id"]
        async with self.platform.connect(endpoint, _ROLE, _DATABASE) as client:
            yield client
