"""Folders that appear whole and vanish at once, whatever driver fills them.

A folder is made under the name `….making` and removed under the name `….dropping`; either may be
left by a crash, and means nothing to anyone who looks for volumes.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bough.engine.local.durable import publish, sync_filesystem

MAKING = ".making"
DROPPING = ".dropping"


@contextmanager
def being_made(place: Path) -> Iterator[Path]:
    """A path to fill; at the end it is synced and takes its name. What a failure left is removed."""
    making = place.with_name(place.name + MAKING)
    remove(making)
    try:
        yield making
        sync_filesystem(making)
        publish(making, place)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def drop(place: Path) -> None:
    dropping = place.with_name(place.name + DROPPING)
    remove(dropping)
    if place.exists():
        place.rename(dropping)
        remove(dropping)


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in (MAKING, DROPPING)]


def remove(path: Path) -> None:
    """Gone, if it was there at all."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
