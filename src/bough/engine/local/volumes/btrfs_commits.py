"""Commits often while a server writes a checkpoint, so that the snapshot that follows has little to write.

btrfs writes all changes in one commit, and every sync waits for it. A checkpoint soon after a snapshot changes much,
because shared blocks must be copied, and the next snapshot commits all of that. With WAL on the same file system, every
transaction waits for such a sync.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bough.engine.local.durable_files import is_btrfs, sync_filesystem
from bough.engine.local.threads import run_shielded
from bough.engine.port import EngineError

_PAUSE_SECONDS = 0.01  # lets other syncs pass


@asynccontextmanager
async def commit_continuously(data: Path, wal: Path) -> AsyncIterator[None]:
    """Commit repeatedly during the block and once after it, where WAL and data share a btrfs."""
    if not _share_btrfs(data, wal):
        yield
        return
    is_done = asyncio.Event()
    task = asyncio.create_task(_commit_until(is_done, data))
    try:
        yield
    finally:
        is_done.set()
        await task


def _share_btrfs(data: Path, wal: Path) -> bool:
    with suppress(OSError):  # the caller, who copies the folder, reports that it is missing
        return wal.parent == data and is_btrfs(data)
    return False


async def _commit_until(is_done: asyncio.Event, data: Path) -> None:
    """Ignore errors: these commits only save time, and callers sync what must be durable."""
    with suppress(OSError, EngineError):
        while not is_done.is_set():
            await run_shielded(lambda: sync_filesystem(data))
            with suppress(TimeoutError):
                await asyncio.wait_for(is_done.wait(), _PAUSE_SECONDS)
        await run_shielded(lambda: sync_filesystem(data))
