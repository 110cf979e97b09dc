"""A folder for a volume driver: a plain folder, or one on a file system created for the test."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from bough.engine.local.isolation.sandbox import Identity, current_identity
from bough.engine.local.volumes.btrfs import BtrfsDriver
from bough.engine.local.volumes.plain import PlainDriver
from bough.engine.local.volumes.port import Driver
from bough.engine.local.volumes.reflink import ReflinkDriver
from support.loop_images import mount_loop_image
from support.platform import temporary_folder
from support.requirements import require_cow

MB = 1 << 20
DRIVERS: dict[str, type[Driver]] = {"plain": PlainDriver, "reflink": ReflinkDriver, "btrfs": BtrfsDriver}
COPY_ON_WRITE: dict[str, Literal["xfs", "btrfs"]] = {"reflink": "xfs", "btrfs": "btrfs"}
TENANT = Identity(54321, 54321)


@contextmanager
def open_driver_folder(driver: str) -> Iterator[Path]:
    if driver not in COPY_ON_WRITE:
        with temporary_folder() as folder:
            yield folder
    else:
        require_cow()
        with mount_loop_image(COPY_ON_WRITE[driver]) as folder:
            yield folder


@dataclass(frozen=True)
class DriverWorkspace:
    """A driver and a folder that it works in."""

    driver: Driver
    folder: Path

    @property
    def source_folder(self) -> Path:
        return self.folder / "source"

    @property
    def copy_folder(self) -> Path:
        return self.folder / "copy"

    def fill(self, files: dict[str, bytes]) -> None:
        if not self.source_folder.exists():
            self.driver.make_folder(self.source_folder)
        for name, content in files.items():
            path = self.source_folder / name
            for folder in reversed(path.relative_to(self.source_folder).parents):
                (self.source_folder / folder).mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)

    def clone(self, owner: Identity | None = None) -> Path:
        self.driver.clone(self.source_folder, self.copy_folder, owner or current_identity())
        return self.copy_folder

    def used_bytes(self) -> int:
        os.sync()
        status = os.statvfs(self.folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize


@pytest.fixture(scope="module", params=DRIVERS)
def driver_folder(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    with open_driver_folder(request.param) as folder:
        yield request.param, folder


@pytest.fixture
def workspace(driver_folder: tuple[str, Path]) -> Iterator[DriverWorkspace]:
    """An empty workspace for every test, on a file system that all tests of a driver share."""
    driver, folder = driver_folder
    created = DriverWorkspace(DRIVERS[driver](), folder)
    yield created
    for path in folder.iterdir():
        created.driver.remove(path)


def read_tree(folder: Path) -> dict[str, bytes | str | None]:
    """Return every name with its content: the bytes of a file, the target of a link, None for a folder."""
    tree: dict[str, bytes | str | None] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            tree[name] = str(path.readlink())
        else:
            tree[name] = None if path.is_dir() else path.read_bytes()
    return tree
