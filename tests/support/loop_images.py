"""File systems for a test: an image in a file, mounted through a loop device and removed afterwards."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

FileSystem = Literal["xfs", "btrfs", "ext4"]

# Without discarding blocks first, because the image is new and sparse.
_FORMAT_COMMANDS: dict[FileSystem, list[str]] = {
    "xfs": ["mkfs.xfs", "-q", "-K"],
    "btrfs": ["mkfs.btrfs", "--quiet", "--nodiscard"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard"],
}
# Memory first, because it is much faster.
_PARENT_FOLDERS = ("/dev/shm", "/tmp")


@contextmanager
def mount_loop_image(fs: FileSystem, size_mb: int = 1024) -> Iterator[Path]:
    """Yield an empty file system that every user may traverse. XFS needs at least 300 MB, btrfs 110 MB."""
    with _mounted(fs, size_mb) as mount_point:
        mount_point.chmod(0o711)
        yield mount_point


@contextmanager
def _mounted(fs: FileSystem, size_mb: int) -> Iterator[Path]:
    last_error: Exception | None = None
    for parent in _with_free_space(size_mb):
        folder = Path(tempfile.mkdtemp(prefix="bough-", dir=parent))
        folder.chmod(0o711)
        try:
            try:
                _mount(fs, size_mb, folder)
            except subprocess.CalledProcessError as error:
                last_error = error
                continue
            yield folder / "fs"
            return
        finally:
            _unmount(folder / "fs")
            shutil.rmtree(folder, ignore_errors=True)
    raise RuntimeError(f"no {fs} image of {size_mb} MB could be mounted") from last_error


def _with_free_space(size_mb: int) -> Iterator[str]:
    """Skip folders with too little space, where writing to the sparse image would fail as a disk error."""
    for parent in _PARENT_FOLDERS:
        with suppress(FileNotFoundError):
            status = os.statvfs(parent)
            if status.f_bavail * status.f_frsize >= size_mb << 20:
                yield parent


def _mount(fs: FileSystem, size_mb: int, folder: Path) -> None:
    create_image(fs, size_mb, folder / "image")
    (folder / "fs").mkdir(mode=0o711)
    mount_image(fs, folder / "image", folder / "fs")


def create_image(fs: FileSystem, size_mb: int, image: Path) -> None:
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    subprocess.run([*_FORMAT_COMMANDS[fs], str(image)], check=True, capture_output=True)


def mount_image(fs: FileSystem, image: Path, mount_point: Path) -> None:
    # With the option `loop` the kernel detaches the device by itself, also after a lazy unmount.
    subprocess.run(["mount", "-t", fs, "-o", "loop,noatime", image, mount_point], check=True, capture_output=True)


def list_mounts(folder: Path, devices: str = "") -> list[Path]:
    """Return mount points at and below the folder, innermost first, without accessing their file systems."""
    lines = [line for line in Path("/proc/self/mounts").read_text().splitlines() if line.startswith(devices)]
    mount_points = [Path(line.split()[1]) for line in lines]
    return sorted((mount_point for mount_point in mount_points if mount_point.is_relative_to(folder)), reverse=True)


def _unmount(mount_point: Path) -> None:
    while list_mounts(mount_point):
        if subprocess.run(["umount", mount_point], check=False, capture_output=True).returncode != 0:
            subprocess.run(["umount", "--lazy", mount_point], check=True)


def check_xfs(file: Path) -> None:
    """Check the file system of an image that was unmounted."""
    wait_until_detached(file)
    done = subprocess.run(["xfs_repair", "-n", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def wait_until_detached(file: Path) -> None:
    """A mount namespace of another program, which was copied meanwhile, keeps the file system in use."""
    command = ["losetup", "--noheadings", "--associated", str(file)]
    for _ in range(600):
        if not subprocess.run(command, capture_output=True, check=True).stdout:
            return
        time.sleep(0.05)
    raise AssertionError(f"the image {file} is still in use")
