"""Small commits while a server writes its checkpoint, so that the snapshot after it has little to write.

btrfs writes what has changed in one commit, and who syncs a file meanwhile waits until it is over. A
checkpoint just after a snapshot changes much, for whatever the two share must be parted, and a snapshot
commits all of it. With WAL on the same file system every transaction is such a sync.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bough.engine.local.durable_files import is_btrfs, sync_filesystem
from bough.engine.local.threads import run_shielded
from bough.engine.port import EngineError

_PAUSE = 0.01  # seconds, in which others have their turn


@asynccontextmanager
async def commit_continuously(data: Path, wal: Path) -> AsyncIterator[None]:
    """Commits again and again as long as the block takes, and once after it; only where it helps."""
    if not _share_btrfs(data, wal):
        yield
        return
    over = asyncio.Event()
    committing = asyncio.create_task(_commit_until(over, data))
    try:
        yield
    finally:
        over.set()
        await committing


def _share_btrfs(data: Path, wal: Path) -> bool:
    with suppress(OSError):  # what is missing will be missed by whoever copies it
        return wal.parent == data and is_btrfs(data)
    return False


async def _commit_until(over: asyncio.Event, data: Path) -> None:
    """What fails here is no error: what must be synced, whoever made it syncs himself."""
    with suppress(OSError, EngineError):
        while not over.is_set():
            await run_shielded(lambda: sync_filesystem(data))
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _PAUSE)
        await run_shielded(lambda: sync_filesystem(data))
