"""Folders that appear complete and disappear at once, whichever driver fills them.

A folder is created under the name `….making` and removed under the name `….dropping`. A crash may leave either; neither
counts as a volume.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from bough.engine.local.durable_files import publish_folder, sync_filesystem, sync_folder
from bough.engine.local.volumes.port import Driver

STAGING_SUFFIX = ".making"
REMOVAL_SUFFIX = ".dropping"


@contextmanager
def create_atomically(path: Path, driver: Driver) -> Iterator[Path]:
    """Yield a path to fill; at the end of the block it is synced and renamed to `path`.

    A failure removes it.
    """
    staged = staging_path(path)
    driver.remove(staged)
    try:
        yield staged
        sync_filesystem(staged)
        publish_folder(staged, path)
    except BaseException:
        driver.remove(staged)
        raise


def staging_path(path: Path) -> Path:
    return path.with_name(path.name + STAGING_SUFFIX)


def remove_atomically(path: Path, driver: Driver, stop_pacing: Event | None = None) -> None:
    driver.remove(_removal_path(path))
    if path.exists():
        hide_folder(path)
        driver.remove(_removal_path(path), stop_pacing)


def hide_folder(path: Path) -> None:
    """Rename the folder so that no caller finds it; `remove_atomically` removes it later."""
    path.rename(_removal_path(path))
    sync_folder(path.parent)  # after a power failure no caller would remove it again


def list_leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in (STAGING_SUFFIX, REMOVAL_SUFFIX)]


def _removal_path(path: Path) -> Path:
    return path.with_name(path.name + REMOVAL_SUFFIX)
