"""File systems of their own for a test: an image in a file, mounted by a loop device, gone afterwards."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

FileSystem = Literal["xfs", "btrfs", "ext4"]

# Nothing is discarded beforehand: the image is new, and full of holes.
_MAKE: dict[FileSystem, list[str]] = {
    "xfs": ["mkfs.xfs", "-q", "-K"],
    "btrfs": ["mkfs.btrfs", "--quiet", "--nodiscard"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard"],
}
# In memory first, which is much faster.
_PLACES = ("/dev/shm", "/tmp")


@contextmanager
def mount_loop_image(fs: FileSystem, size_mb: int = 1024) -> Iterator[Path]:
    """An empty file system that any user may pass through. XFS wants 300 MB at least, btrfs 110."""
    with _mounted(fs, size_mb) as mount_point:
        mount_point.chmod(0o711)
        yield mount_point


@contextmanager
def _mounted(fs: FileSystem, size_mb: int) -> Iterator[Path]:
    refused: Exception | None = None
    for place in _with_free_space(size_mb):
        folder = Path(tempfile.mkdtemp(prefix="bough-", dir=place))
        folder.chmod(0o711)
        try:
            try:
                _mount(fs, size_mb, folder)
            except subprocess.CalledProcessError as error:
                refused = error
                continue
            yield folder / "fs"
            return
        finally:
            _unmount(folder / "fs")
            shutil.rmtree(folder, ignore_errors=True)
    raise RuntimeError(f"no {fs} image of {size_mb} MB could be mounted") from refused


def _with_free_space(size_mb: int) -> Iterator[str]:
    """Holes that cannot be filled later would be errors of the disk."""
    for place in _PLACES:
        with suppress(FileNotFoundError):
            room = os.statvfs(place)
            if room.f_bavail * room.f_frsize >= size_mb << 20:
                yield place


def _mount(fs: FileSystem, size_mb: int, folder: Path) -> None:
    create_image(fs, size_mb, folder / "image")
    (folder / "fs").mkdir(mode=0o711)
    mount_image(fs, folder / "image", folder / "fs")


def create_image(fs: FileSystem, size_mb: int, image: Path) -> None:
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    subprocess.run([*_MAKE[fs], str(image)], check=True, capture_output=True)


def mount_image(fs: FileSystem, image: Path, place: Path) -> None:
    # The option `loop` makes the kernel let go of the device by itself, after a late unmount too.
    subprocess.run(["mount", "-t", fs, "-o", "loop,noatime", image, place], check=True, capture_output=True)


def list_mounts(folder: Path) -> list[Path]:
    """The folder itself and what is below it, the innermost first; asks nothing of the file systems."""
    places = [Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted((place for place in places if place.is_relative_to(folder)), reverse=True)


def _unmount(mount_point: Path) -> None:
    while list_mounts(mount_point):
        if subprocess.run(["umount", mount_point], check=False, capture_output=True).returncode != 0:
            subprocess.run(["umount", "--lazy", mount_point], check=True)
