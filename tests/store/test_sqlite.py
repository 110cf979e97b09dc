"""How the SQLite store syncs: a durable transaction at its commit, the others a moment later."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bough.store.sqlite import SqliteStore
from support.stores import make_project

NORMAL, FULL = 1, 2  # values of `pragma synchronous`: without and with a sync at every commit


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    created = SqliteStore(tmp_path / "store.db")
    await created.open()
    yield created
    await created.close()


def _synchronous(store: SqliteStore) -> int:
    with store._writer.connect() as connection:
        return int(connection.exec_driver_sql("pragma synchronous").scalar_one())


async def _add(store: SqliteStore, *, durable: bool) -> int:
    async with store.transaction(durable=durable) as rows:
        await rows.projects.add(make_project())
        return _synchronous(store)


async def test_only_a_lasting_transaction_waits_for_the_disk(store: SqliteStore) -> None:
    assert await _add(store, durable=True) == FULL
    assert await _add(store, durable=False) == NORMAL
    assert await _add(store, durable=True) == FULL


async def test_a_lasting_one_after_another_that_failed_waits_too(store: SqliteStore) -> None:
    with pytest.raises(RuntimeError, match="halfway"):
        async with store.transaction(durable=False):
            raise RuntimeError("halfway")
    assert await _add(store, durable=True) == FULL


async def test_each_waits_as_it_asked_to_when_many_come_together(store: SqliteStore) -> None:
    durable = [bool(number % 3) for number in range(12)]
    seen = await asyncio.gather(*(_add(store, durable=each) for each in durable))
    assert seen == [FULL if each else NORMAL for each in durable]


async def test_what_was_not_waited_for_is_sent_to_the_disk_soon(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: asyncio.Queue[Path] = asyncio.Queue()
    loop, fsync = asyncio.get_running_loop(), os.fsync

    def record_sync(descriptor: int) -> None:
        fsync(descriptor)
        loop.call_soon_threadsafe(synced.put_nowait, Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", record_sync)
    for _ in range(2):  # the second one must be synced too
        await _add(store, durable=False)
        assert (await synced.get()).name == "store.db-wal"
