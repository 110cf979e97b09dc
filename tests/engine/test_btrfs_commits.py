"""How often a file system commits while a server writes a checkpoint."""

import asyncio
from pathlib import Path
from queue import SimpleQueue

import pytest

from bough.engine.local import durable_files
from bough.engine.local.volumes import btrfs_commits
from bough.engine.local.volumes.btrfs_commits import commit_continuously
from support.loop_images import FileSystem, mount_loop_image
from support.requirements import require_cow

Committed = SimpleQueue[Path]


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> Committed:
    """Record every folder whose file system was synced."""
    synced: Committed = SimpleQueue()
    real = durable_files.sync_filesystem

    def record(folder: Path) -> None:
        real(folder)
        synced.put(folder)

    monkeypatch.setattr(btrfs_commits, "sync_filesystem", record)
    return synced


async def _wait_for_commit(committed: Committed) -> Path:
    return await asyncio.to_thread(committed.get, timeout=30)


async def _stays_quiet(committed: Committed) -> bool:
    while not committed.empty():
        committed.get()
    await asyncio.sleep(10 * btrfs_commits._PAUSE_SECONDS)
    return committed.empty()


async def test_btrfs_with_its_wal_commits_again_and_again_and_once_at_the_end(committed: Committed) -> None:
    require_cow()
    with mount_loop_image("btrfs", 128) as data:
        async with commit_continuously(data, data / "pg_wal"):
            assert [await _wait_for_commit(committed) for _ in range(3)] == [data] * 3
            before = committed.qsize()
        assert committed.qsize() > before
        assert await _stays_quiet(committed)


@pytest.mark.parametrize(("fs", "is_external"), [("btrfs", True), ("xfs", False)])
async def test_nothing_is_committed_where_it_would_not_help(
    committed: Committed, tmp_path: Path, fs: FileSystem, is_external: bool
) -> None:
    require_cow()
    with mount_loop_image(fs, 320) as data:
        async with commit_continuously(data, (tmp_path if is_external else data) / "pg_wal"):
            assert await _stays_quiet(committed)
    assert committed.empty()


async def test_a_folder_that_is_gone_is_no_error_here(committed: Committed, tmp_path: Path) -> None:
    async with commit_continuously(tmp_path / "gone", tmp_path / "gone" / "pg_wal"):
        pass
    assert committed.empty()


async def test_an_error_in_the_block_is_the_end_of_it(committed: Committed) -> None:
    require_cow()
    with mount_loop_image("btrfs", 128) as data:
        with pytest.raises(ZeroDivisionError):
            async with commit_continuously(data, data / "pg_wal"):
                await _wait_for_commit(committed)
                raise ZeroDivisionError
        assert await _stays_quiet(committed)


async def test_a_commit_that_fails_is_left_to_whoever_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require_cow()
    attempts: Committed = SimpleQueue()

    def fail(folder: Path) -> None:
        attempts.put(folder)
        raise OSError

    monkeypatch.setattr(btrfs_commits, "sync_filesystem", fail)
    with mount_loop_image("btrfs", 128) as data:
        async with commit_continuously(data, data / "pg_wal"):
            assert await _wait_for_commit(attempts) == data
