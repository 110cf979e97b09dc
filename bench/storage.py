"""Homes for every driver, on a real disk: on the machine's file system, or on an image.

`reflink` has its volumes on XFS and `btrfs+wal` on btrfs, both in an image as `bough storage init` creates it, with WAL
outside the image. `btrfs` is a home that is entirely on btrfs, including WAL. `plain` has no image. All are removed at
the end in any case.
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
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.folders import Folders
from bough.engine.local.images import image_setup, mounts
from bough.engine.local.images.image import FileSystem, Image
from bough.engine.local.isolation import cgroups
from bough.engine.local.isolation.uid_cleanup import remove_files
from bough.engine.local.progress import ignore_progress

FOLDER = Path("/tmp")
COPY_ON_WRITE = ("reflink", "btrfs", "btrfs+wal")
DRIVERS = (*COPY_ON_WRITE, "plain")
GB = 1024**3
_FILE_SYSTEMS: dict[str, FileSystem] = {"reflink": "xfs", "btrfs": "btrfs", "btrfs+wal": "btrfs"}


class RequirementMissing(Exception):
    """This machine lacks something that a measurement needs; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageHome:
    driver: str
    home: Path
    description: str  # the file systems of its volumes and their WAL

    @property
    def storage(self) -> str:
        """The value of the setting `storage`."""
        return "plain" if self.driver == "plain" else "auto"

    @property
    def volumes_folder(self) -> Path:
        image = Image.load(self.home)
        return (image.mount_point if image else self.home) / "volumes"

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home, storage=self.storage, warm_pool=0, cpu_limits=False)


def native_file_system() -> str:
    """Return the file system under all homes and images."""
    return mounts.find_file_system(FOLDER)


def check_requirements(drivers: tuple[str, ...], needed_gb: float) -> None:
    """Check for root, the programs that create file systems, and disk space."""
    kinds = {_FILE_SYSTEMS[driver] for driver in drivers if driver in _FILE_SYSTEMS}
    if kinds and os.geteuid() != 0:
        raise RequirementMissing(f"{', '.join(drivers)} need mounted images: run the bench as root.")
    for package in filter(None, map(image_setup.find_missing_package, kinds)):
        raise RequirementMissing(f"The package {package} creates images and is missing: install it.")
    free = shutil.disk_usage(FOLDER).free / GB
    if free < needed_gb + 1:
        raise RequirementMissing(f"{FOLDER} has {free:.0f} GB of free space, but {needed_gb + 1:.0f} GB are needed.")


@contextmanager
def create_storage_home(driver: str, image_gb: int, *, thin: bool = True) -> Iterator[StorageHome]:
    """Yield an empty home without a platform."""
    folder = Path(tempfile.mkdtemp(prefix="bough-bench-", dir=FOLDER))
    folder.chmod(0o711)  # as root, computes run under other users, who must be able to enter
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        home = folder / "home"
        home.mkdir(mode=0o711)
        if driver != "plain":
            image = Image.plan(home, folder / "image", fs=_FILE_SYSTEMS[driver], thin=thin, size=image_gb * GB)
            stack.callback(_unmount, image)
            image_setup.create_image(image, 0, ignore_progress)
            home = image.mount_point / "home" if driver == "btrfs" else home
        place = StorageHome(driver=driver, home=home, description=_description(driver, home, thin))
        stack.callback(_clean_up, place, folder)
        yield place


def _description(driver: str, home: Path, thin: bool) -> str:
    native = native_file_system()
    if driver == "plain":
        return f"plain: volumes on {native} itself"
    apart = Folders(Settings(home=home)).pg_wal is not None
    return (
        f"{driver}: volumes on {_FILE_SYSTEMS[driver]} in {'a thin' if thin else 'an allocated'} image on {native}, "
        f"their WAL {f'on {native} itself' if apart else 'with them'}"
    )


def _unmount(image: Image) -> None:
    image_setup.remove_draft(image.home)
    if image.mount_point.is_mount():
        try:
            mounts.unmount(image.mount_point)
        except mounts.CommandFailed:
            mounts.run_command("umount", "--lazy", image.mount_point)


def _clean_up(place: StorageHome, folder: Path) -> None:
    """Remove running processes and what is outside the home: sockets, groups, user ids."""
    settings = place.settings
    for data in place.volumes_folder.glob("*/data"):
        _stop_compute(data)
    shutil.rmtree(settings.sockets, ignore_errors=True)
    groups = cgroups.detect_cgroups(settings)
    for name in groups.list_names():
        groups.remove(name)
    _release_uids(settings.sockets.parent / "uids", folder)


def _release_uids(host: Path, folder: Path) -> None:
    """Release user ids that homes in the folder used, and their shared memory, under the lock."""
    if not host.exists():
        return
    with hold_file_lock(host / ".lock"):
        for claim in host.glob("[0-9]*"):
            if claim.readlink().is_relative_to(folder):
                remove_files(int(claim.name))
                claim.unlink()


def _stop_compute(data: Path) -> None:
    live = postmaster.find(data)
    if live is not None:
        with live:
            live.signal(signal.SIGQUIT)  # immediately: its data is removed next
            while not live.has_ended():
                time.sleep(0.01)
