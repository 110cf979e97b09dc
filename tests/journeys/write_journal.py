"""Writes numbered rows from several clients, and records marks: a time, an LSN and the rows committed by then."""

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
_CURRENT_LSN = "select pg_current_wal_insert_lsn()::text"
_WRITERS = 3
_ROWS_BETWEEN_MARKS = 20
_ROLE, _DATABASE = "neondb_owner", "neondb"


@dataclass(frozen=True, slots=True)
class JournalMark:
    at: datetime
    lsn: str
    rows: frozenset[int]


@dataclass(slots=True)
class WriteJournal:
    """The rows that were committed to the branch in a response, and the marks that it can be restored to."""

    platform: Platform
    creation_response: Json
    rows: set[int] = field(default_factory=set)
    marks: list[JournalMark] = field(default_factory=list)
    _next: int = 0
    _writing: int = 0  # open transactions
    _open: asyncio.Event = field(default_factory=asyncio.Event)  # set while writers may start a transaction

    async def create_table(self) -> None:
        await self.platform.query(self.creation_response, TABLE)

    async def write(self, marks: int) -> None:
        """Writes from several clients at the same time, and records marks while no transaction is open."""
        self._open.set()
        writers = [asyncio.create_task(self._keep_writing()) for _ in range(_WRITERS)]
        try:
            async with self._connect() as client:
                for _ in range(marks):
                    await self._wait_for_rows(writers)
                    await self._pause_writers()
                    lsn = await client.fetchval(_CURRENT_LSN)
                    self.marks.append(JournalMark(datetime.now(UTC), lsn, frozenset(self.rows)))
                    await asyncio.sleep(0.002)
                    self._open.set()
                await self._wait_for_rows(writers)
                await self._pause_writers()
        finally:
            for task in writers:
                task.cancel()
            await asyncio.gather(*writers, return_exceptions=True)

    async def _wait_for_rows(self, writers: list["asyncio.Task[None]"]) -> None:
        target_count = len(self.rows) + _ROWS_BETWEEN_MARKS
        while len(self.rows) < target_count:
            await asyncio.sleep(0.005)
            for task in writers:
                if task.done():
                    task.result()

    async def _pause_writers(self) -> None:
        """Waits until no transaction is open; no writer starts another one until `_open` is set."""
        self._open.clear()
        while self._writing:  # noqa: ASYNC110 - only this object changes it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.002)

    async def read_rows(self) -> set[int]:
        async with self._connect() as client:
            return {row["id"] for row in await client.fetch(_IDS)}

    def record_restore(self, mark: JournalMark) -> None:
        """Sets the expected rows after a restore. Later times now mean the restored state; their LSNs are gone."""
        self.rows = set(mark.rows)
        self.marks = [each if each.at <= mark.at else JournalMark(each.at, "", mark.rows) for each in self.marks]

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
