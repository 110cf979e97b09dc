"""How often a file system commits while a server writes its checkpoint."""

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
    """Every folder whose file system was told to commit, and did."""
    seen: Committed = SimpleQueue()
    real = durable_files.sync_filesystem

    def noted(folder: Path) -> None:
        real(folder)
        seen.put(folder)

    monkeypatch.setattr(btrfs_commits, "sync_filesystem", noted)
    return seen


async def _one_more(committed: Committed) -> Path:
    return await asyncio.to_thread(committed.get, timeout=30)


async def _none_later(committed: Committed) -> bool:
    while not committed.empty():
        committed.get()
    await asyncio.sleep(10 * btrfs_commits._PAUSE_SECONDS)
    return committed.empty()


async def test_btrfs_with_its_wal_commits_again_and_again_and_once_at_the_end(committed: Committed) -> None:
    require_cow()
    with mount_loop_image("btrfs", 128) as data:
        async with commit_continuously(data, data / "pg_wal"):
            assert [await _one_more(committed) for _ in range(3)] == [data] * 3
            before = committed.qsize()
        assert committed.qsize() > before
        assert await _none_later(committed)


@pytest.mark.parametrize(("fs", "is_apart"), [("btrfs", True), ("xfs", False)])
async def test_nothing_is_committed_where_it_would_not_help(
    committed: Committed, tmp_path: Path, fs: FileSystem, is_apart: bool
) -> None:
    require_cow()
    with mount_loop_image(fs, 320) as data:
        async with commit_continuously(data, (tmp_path if is_apart else data) / "pg_wal"):
            assert await _none_later(committed)
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
                await _one_more(committed)
                raise ZeroDivisionError
        assert await _none_later(committed)


async def test_a_commit_that_fails_is_left_to_whoever_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require_cow()
    tried: Committed = SimpleQueue()

    def fail(folder: Path) -> None:
        tried.put(folder)
        raise OSError

    monkeypatch.setattr(btrfs_commits, "sync_filesystem", fail)
    with mount_loop_image("btrfs", 128) as data:
        async with commit_continuously(data, data / "pg_wal"):
            assert await _one_more(tried) == data
