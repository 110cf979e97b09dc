"""Homes with storage images, for tests that create and damage them; nothing stays mounted or attached."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bough.config import Settings
from bough.engine.local.images.image import FileSystem, Image
from bough.engine.local.images.image_setup import create_image
from bough.engine.local.progress import ignore_progress
from support.platform import temporary_folder
from support.requirements import require_cow

SIZE = 1024**3


@contextmanager
def create_empty_home() -> Iterator[Path]:
    """Yield a home with nothing in it."""
    require_cow()
    with temporary_folder() as folder:
        (folder / "home").mkdir(mode=0o711)
        with release_mounts(folder):
            yield folder / "home"


@contextmanager
def release_mounts(folder: Path) -> Iterator[None]:
    """Unmount everything in the folder and detach the loop devices of its files at the end."""
    try:
        yield
    finally:
        for mount_point in list_mounts(folder):
            if subprocess.run(["umount", mount_point], check=False, capture_output=True).returncode != 0:
                subprocess.run(["umount", "--lazy", mount_point], check=True)
        for device in list_loop_devices(folder):
            subprocess.run(["losetup", "--detach", device], check=True)


def list_mounts(folder: Path) -> list[str]:
    mount_points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [mount_point for mount_point in reversed(mount_points) if Path(mount_point).is_relative_to(folder)]


def list_loop_devices(folder: Path) -> list[str]:
    result = subprocess.run(
        ["losetup", "--noheadings", "--output", "NAME,BACK-FILE"], check=True, capture_output=True, text=True
    )
    devices = (line.split(maxsplit=1) for line in result.stdout.splitlines())
    return [device[0] for device in devices if len(device) > 1 and Path(device[1]).is_relative_to(folder)]


def plan_image(home: Path, fs: FileSystem = "xfs") -> Image:
    return Image.plan(home, home / "storage.img", fs=fs, thin=True, size=SIZE)


def create_home_image(home: Path, fs: FileSystem = "xfs") -> Image:
    """Create a storage image as `bough storage init --thin` does."""
    create_image(plan_image(home, fs), 0, ignore_progress)
    image = Image.load(home)
    assert image is not None
    return image


def storage_settings(home: Path) -> Settings:
    return Settings(home=home, free_space_floor=0)


def write_volumes(home: Path, count: int, size: int = 10_000) -> None:
    """Write volumes as the engine leaves them, with files of different users, and a template."""
    for number in range(count):
        volume = home / "volumes" / f"vol-{number}"
        (volume / "data" / "base" / "5").mkdir(parents=True)
        (volume / "conf").mkdir(mode=0o750)
        (volume / "volume.json").write_text('{"project_id": "quiet-sea-12345678", "install": "embedded-17"}')
        for name in range(20):
            (volume / "data" / "base" / "5" / str(name)).write_bytes(os.urandom(size))
        (volume / "data" / "name with space").touch(mode=0o640)
        (volume / "data" / "link").symlink_to("base/5")
        for parent, _folders, files in os.walk(volume / "data"):
            for path in (parent, *(f"{parent}/{name}" for name in files)):
                os.chown(path, 200_000 + number, 300_000 + number, follow_symlinks=False)
        volume.chmod(0o710)
    (home / "templates" / "embedded-17" / "global").mkdir(parents=True)
    (home / "templates" / "embedded-17" / "global" / "pg_control").write_bytes(os.urandom(8192))
    (home / "templates" / "embedded-17.lock").touch()


def read_tree_metadata(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return all that an exact copy keeps: type and mode, owner, group, target of a link, time and bytes of a file."""
    metadata: dict[str, tuple[object, ...]] = {}
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *files)):
            stat = path.lstat()
            content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            mtime = stat.st_mtime_ns if path.is_file() and not path.is_symlink() else None
            metadata[str(path.relative_to(folder))] = (stat.st_mode, stat.st_uid, stat.st_gid, content, mtime)
    return metadata
