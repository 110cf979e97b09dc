"""Create an install in the cache so that it is complete or absent, whatever happens.

Everything is prepared in a temporary folder and renamed at the end, under a lock, so that two processes do not collide
and an incomplete install is never visible. All files are world-readable, because computes run as other users.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bough.engine.local.durable_files import publish_folder, sync_filesystem
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.installs.installs import Install, installs_folder, read_install
from bough.engine.port import EngineError

TEMPORARY = ".making"  # ends the name of an install that is being created or removed
NEEDED_MB = 400  # for downloading and unpacking one install


class CacheUnusable(EngineError):
    """The folder or its disk cannot be used, so no source of Postgres can."""

    def __init__(self, public: str) -> None:
        super().__init__(public, transient=False)


@contextmanager
def hold_cache(cache: Path) -> Iterator[Path]:
    """Hold the lock of the cache; yield the folder of the installs. Explain errors of the disk."""
    folder = installs_folder(cache)
    try:
        create_public_folder(folder)
        with hold_file_lock(folder / ".lock"):
            yield folder
    except OSError as error:
        raise _cache_error(error, cache) from error


@contextmanager
def stage_install(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder in which the block creates `tree`, which then gets its final path."""
    temporary = folder.with_name(f"{folder.name}{TEMPORARY}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        temporary.chmod(0o755)
        yield temporary
        sync_filesystem(temporary / "tree")
        if folder.exists():  # without a record, so it is incomplete
            shutil.rmtree(folder)
        publish_folder(temporary / "tree", folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_install(folder: Path) -> Install:
    install = read_install(folder)
    if install is None:
        raise EngineError(f"{folder} is not a Postgres install: remove it and start again.", transient=False)
    return install


def create_public_folder(folder: Path) -> None:
    """Create missing folders so that the users of computes can traverse them."""
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(exist_ok=True)
            path.chmod(0o755)


def _cache_error(error: OSError, cache: Path) -> CacheUnusable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CacheUnusable(f"The disk of {cache} is full. Free about {NEEDED_MB} MB and start again.")
    return CacheUnusable(
        f"The cache folder {cache} cannot be used ({error.strerror}: {error.filename}). "
        "Fix that, or set another folder with BOUGH_CACHE, and start again."
    )
