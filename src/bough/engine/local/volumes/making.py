"""Folders that appear whole and vanish at once, whatever driver fills them.

A folder is made under the name `….making` and removed under the name `….dropping`; either may be
left by a crash, and means nothing to anyone who looks for volumes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from bough.engine.local.durable import publish, sync_filesystem, sync_folder
from bough.engine.local.volumes.port import Driver

MAKING = ".making"
DROPPING = ".dropping"


@contextmanager
def being_made(place: Path, driver: Driver) -> Iterator[Path]:
    """A path to fill; at the end it is synced and takes its name. What a failure left is removed."""
    making = begun(place)
    driver.remove(making)
    try:
        yield making
        sync_filesystem(making)
        publish(making, place)
    except BaseException:
        driver.remove(making)
        raise


def begun(place: Path) -> Path:
    return place.with_name(place.name + MAKING)


def drop(place: Path, driver: Driver, hurry: Event | None = None) -> None:
    driver.remove(_dropped(place))
    if place.exists():
        hide(place)
        driver.remove(_dropped(place), hurry)


def hide(place: Path) -> None:
    """It is there, and nobody finds it; whoever drops it removes it."""
    place.rename(_dropped(place))
    sync_folder(place.parent)  # the power may be cut, and nobody would ask for it again


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in (MAKING, DROPPING)]


def _dropped(place: Path) -> Path:
    return place.with_name(place.name + DROPPING)
