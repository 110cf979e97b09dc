"""Homes for every driver, on real disk: as they are on the machine's file system, or on an image in it.

`reflink` has its volumes on XFS and `btrfs+wal` on btrfs, both in an image as `bough storage init`
makes it, with the WAL where such a home keeps it. `btrfs` is a home that is on btrfs as a whole, WAL
and all. `plain` has no image. Whatever happens, nothing is left of any of them.
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bough.config import Settings
from bough.engine.local.computes import postmaster
from bough.engine.local.durable import exclusive
from bough.engine.local.folders import Folders
from bough.engine.local.images import image_making, mounts
from bough.engine.local.images.image import FileSystem, Image
from bough.engine.local.isolation import cgroups
from bough.engine.local.isolation.traces import forget_files
from bough.engine.local.progress import silent

FOLDER = Path("/tmp")
COPY_ON_WRITE = ("reflink", "btrfs", "btrfs+wal")
DRIVERS = (*COPY_ON_WRITE, "plain")
GB = 1024**3
_FILE_SYSTEMS: dict[str, FileSystem] = {"reflink": "xfs", "btrfs": "btrfs", "btrfs+wal": "btrfs"}


class NotHere(Exception):
    """This machine lacks something that a measurement needs; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    driver: str
    home: Path
    description: str  # on what its volumes and their WAL are

    @property
    def storage(self) -> str:
        """The setting of that name."""
        return "plain" if self.driver == "plain" else "auto"

    @property
    def volumes(self) -> Path:
        image = Image.of(self.home)
        return (image.root if image else self.home) / "volumes"

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home, storage=self.storage, warm_pool=0)


def file_system() -> str:
    """Under every home and every image."""
    return mounts.file_system_of(FOLDER)


def check(drivers: tuple[str, ...], needed_gb: float) -> None:
    """Before anything is begun: root, the programs that make file systems, and room on the disk."""
    kinds = {_FILE_SYSTEMS[driver] for driver in drivers if driver in _FILE_SYSTEMS}
    if kinds and os.geteuid() != 0:
        raise NotHere(f"Only root can mount the images that {', '.join(drivers)} need: run it as root.")
    for package in filter(None, map(image_making.missing_package, kinds)):
        raise NotHere(f"The package {package} is missing, with which an image is made: install it.")
    free = shutil.disk_usage(FOLDER).free / GB
    if free < needed_gb + 1:
        raise NotHere(f"{FOLDER} has {free:.0f} GB of free space, and {needed_gb + 1:.0f} are needed.")


@contextmanager
def made(driver: str, image_gb: int, *, thin: bool = True) -> Iterator[Place]:
    """A place with an empty home, not served by anyone."""
    folder = Path(tempfile.mkdtemp(prefix="bough-bench-", dir=FOLDER))
    folder.chmod(0o711)  # as root computes run under other users, who must pass
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        home = folder / "home"
        home.mkdir(mode=0o711)
        if driver != "plain":
            image = Image.planned(home, folder / "image", fs=_FILE_SYSTEMS[driver], thin=thin, size=image_gb * GB)
            stack.callback(_unmount, image)
            image_making.make(image, 0, silent)
            home = image.root / "home" if driver == "btrfs" else home
        place = Place(driver=driver, home=home, description=_description(driver, home, thin))
        stack.callback(_forget, place, folder)
        yield place


def _description(driver: str, home: Path, thin: bool) -> str:
    native = file_system()
    if driver == "plain":
        return f"plain: volumes on {native} itself"
    apart = Folders(Settings(home=home)).wal is not None
    return (
        f"{driver}: volumes on {_FILE_SYSTEMS[driver]} in {'a thin' if thin else 'an allocated'} image on {native}, "
        f"their WAL {f'on {native} itself' if apart else 'with them'}"
    )


def _unmount(image: Image) -> None:
    image_making.clear_away(image.home)
    if image.root.is_mount():
        try:
            mounts.unmount(image.root)
        except mounts.CommandFailed:
            mounts.run("umount", "--lazy", image.root)


def _forget(place: Place, folder: Path) -> None:
    """Processes that still run, and what is outside the home: sockets, groups, ids."""
    settings = place.settings
    for data in place.volumes.glob("*/data"):
        _end(data)
    shutil.rmtree(settings.sockets, ignore_errors=True)
    groups = cgroups.found(settings)
    for name in groups.names():
        groups.remove(name)
    _forget_ids(settings.sockets.parent / "uids", folder)


def _forget_ids(host: Path, folder: Path) -> None:
    """Those that homes in the folder lent, with what they left in memory; while nobody else lends any."""
    if not host.exists():
        return
    with exclusive(host / ".lock"):
        for claim in host.glob("[0-9]*"):
            if claim.readlink().is_relative_to(folder):
                forget_files(int(claim.name))
                claim.unlink()


def _end(data: Path) -> None:
    live = postmaster.find(data)
    if live is not None:
        with live:
            live.signal(signal.SIGQUIT)  # at once: its data goes next
            while not live.has_ended():
                time.sleep(0.01)
