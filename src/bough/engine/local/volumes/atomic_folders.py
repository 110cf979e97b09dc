"""Folders that appear whole and vanish at once, whatever driver fills them.

A folder is made under the name `….making` and removed under the name `….dropping`; either may be
left by a crash, and means nothing to anyone who looks for volumes.
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
    """A path to fill; at the end it is synced and takes its name. What a failure left is removed."""
    making = staging_path(path)
    driver.remove(making)
    try:
        yield making
        sync_filesystem(making)
        publish_folder(making, path)
    except BaseException:
        driver.remove(making)
        raise


def staging_path(path: Path) -> Path:
    return path.with_name(path.name + STAGING_SUFFIX)


def remove_atomically(path: Path, driver: Driver, hurry: Event | None = None) -> None:
    driver.remove(_removal_path(path))
    if path.exists():
        hide_folder(path)
        driver.remove(_removal_path(path), hurry)


def hide_folder(path: Path) -> None:
    """It is there, and nobody finds it; whoever drops it removes it."""
    path.rename(_removal_path(path))
    sync_folder(path.parent)  # the power may be cut, and nobody would ask for it again


def list_leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in (STAGING_SUFFIX, REMOVAL_SUFFIX)]


def _removal_path(place: Path) -> Path:
    return place.with_name(place.name + REMOVAL_SUFFIX)
