"""A place for volume drivers to work in: a plain folder, or a file system made for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from bough.engine.local.isolation.sandbox import Identity, ourselves
from bough.engine.local.volumes.btrfs import BtrfsDriver
from bough.engine.local.volumes.plain import PlainDriver
from bough.engine.local.volumes.port import Driver
from bough.engine.local.volumes.reflink import ReflinkDriver
from images import loop_image
from requires import require_cow
from world import short_folder

MB = 1 << 20
DRIVERS: dict[str, type[Driver]] = {"plain": PlainDriver, "reflink": ReflinkDriver, "btrfs": BtrfsDriver}
COPY_ON_WRITE: dict[str, Literal["xfs", "btrfs"]] = {"reflink": "xfs", "btrfs": "btrfs"}
TENANT = Identity(54321, 54321)


@contextmanager
def place_for(driver: str) -> Iterator[Path]:
    if driver not in COPY_ON_WRITE:
        with short_folder() as folder:
            yield folder
    else:
        require_cow()
        with loop_image(COPY_ON_WRITE[driver]) as folder:
            yield folder


@dataclass(frozen=True)
class Shelf:
    """A driver, and a place where it makes its folders."""

    driver: Driver
    place: Path

    @property
    def source(self) -> Path:
        return self.place / "source"

    @property
    def copy(self) -> Path:
        return self.place / "copy"

    def fill(self, files: dict[str, bytes]) -> None:
        if not self.source.exists():
            self.driver.make_folder(self.source)
        for name, content in files.items():
            path = self.source / name
            for folder in reversed(path.relative_to(self.source).parents):
                (self.source / folder).mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)

    def clone(self, owner: Identity | None = None) -> Path:
        self.driver.clone(self.source, self.copy, owner or ourselves())
        return self.copy

    def used(self) -> int:
        os.sync()
        seen = os.statvfs(self.place)
        return (seen.f_blocks - seen.f_bfree) * seen.f_frsize


@pytest.fixture(scope="module", params=DRIVERS)
def module_place(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    with place_for(request.param) as place:
        yield request.param, place


@pytest.fixture
def shelf(module_place: tuple[str, Path]) -> Iterator[Shelf]:
    """A clean one for every test, on a file system that all tests of a driver share."""
    driver, place = module_place
    made = Shelf(DRIVERS[driver](), place)
    yield made
    for path in place.iterdir():
        made.driver.remove(path)


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Every name with what it is: bytes of a file, aim of a link, None for a folder."""
    found: dict[str, bytes | str | None] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found
