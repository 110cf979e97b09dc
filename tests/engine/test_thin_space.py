"""A thin image offers only free space that the disk below has reserved for it, and follows that disk."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bough.engine.local import free_space
from bough.engine.local.folders import Folders
from bough.engine.local.images import allocation, image_setup, thin_space
from bough.engine.local.images.image import Image
from bough.engine.local.images.thin_space import ThinSpace, plan_offered
from bough.engine.local.images.withheld_file import NAME
from bough.engine.local.progress import ignore_progress
from support import storage
from support.loop_images import check_xfs, mount_loop_image
from support.program import wait_until
from support.requirements import require_cow

MB = 1024**2
GB = 1024**3
DISK_MB = 3000
FLOOR = 256 * MB
BLOCK = 512


@dataclass
class ThinHome:
    """A home on a small disk with ext4, with a thin image as large as the disk."""

    disk: Path
    image: Image
    space: ThinSpace

    @property
    def mount_point(self) -> Path:
        return self.image.mount_point

    def free(self) -> int:
        return measure_free(self.mount_point)

    def disk_free(self) -> int:
        return measure_free(self.disk)

    def withheld(self) -> int:
        return thin_space.measure_withheld(self.image)

    def assert_all_reserved(self) -> None:
        """Everything in the image that is not withheld has disk space, so the disk below cannot make a write fail."""
        allocated = self.image.file.stat().st_blocks * BLOCK
        assert allocated + self.withheld() >= self.image.size
        assert allocated + self.withheld() < self.image.size + 16 * MB, "what is withheld has disk space"


def measure_free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


@pytest.fixture
def home() -> Iterator[ThinHome]:
    require_cow()
    with mount_loop_image("ext4", DISK_MB) as disk, storage.release_mounts(disk):
        folder = disk / "home"
        folder.mkdir(mode=0o711)
        planned = Image.plan(folder, folder / "storage.img", fs="xfs", thin=True, size=2500 * MB)
        image_setup.create_image(planned, 0, ignore_progress)
        image = Image.load(folder)
        assert image is not None
        space = ThinSpace(FLOOR, lambda: image)
        space.prepare()
        yield ThinHome(disk, image, space)
        space.close()


def write(file: Path, megabytes: int) -> None:
    with file.open("wb") as opened:
        chunk = os.urandom(MB)
        for number in range(megabytes):
            opened.write(number.to_bytes(8) + chunk[8:])
        os.fsync(opened.fileno())


@pytest.mark.parametrize(
    ("free", "disk_free", "size", "offered"),
    [
        (0, 100 * GB, 80 * GB, 4 * GB),
        (0, 100 * GB, 8 * GB, GB),
        (0, 100 * GB, GB, 512 * MB),
        (100 * MB, 300 * MB, 80 * GB, 200 * MB),
        (400 * MB, 0, 80 * GB, 200 * MB),
        (400 * MB, -200 * MB, 80 * GB, 100 * MB),
        (400 * MB, -500 * MB, 80 * GB, 0),
    ],
)
def test_at_most_half_of_what_is_left_is_offered(free: int, disk_free: int, size: int, offered: int) -> None:
    assert plan_offered(free, disk_free, size) == offered


def test_all_that_is_offered_is_reserved(home: ThinHome) -> None:
    assert 480 * MB < home.free() <= 513 * MB
    home.assert_all_reserved()
    status = (home.mount_point / NAME).stat()
    assert (status.st_uid, status.st_mode & 0o777) == (0, 0o600)


def test_a_writer_gets_more_as_long_as_the_disk_has_more(home: ThinHome) -> None:
    for number in range(4):
        write(home.mount_point / str(number), 300)
        home.space.adjust()
        home.assert_all_reserved()
    assert home.free() > 400 * MB


def test_small_changes_change_nothing(home: ThinHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.space.adjust()

    def fail(*_: object) -> None:
        raise AssertionError("the file was opened")

    monkeypatch.setattr(ThinSpace, "_change", fail)
    write(home.mount_point / "file", 20)
    home.space.adjust()


def test_deleted_data_returns_its_space_to_the_disk(home: ThinHome) -> None:
    before = home.disk_free()
    write(home.mount_point / "file", 400)
    home.space.adjust()
    assert home.disk_free() < before - 300 * MB
    (home.mount_point / "file").unlink()
    wait_until(lambda: home.free() > 800 * MB)  # XFS frees blocks a little later
    home.space.adjust()
    assert home.disk_free() > before - 100 * MB
    home.assert_all_reserved()


def test_below_the_floor_the_image_returns_what_it_does_not_need(home: ThinHome) -> None:
    write(home.mount_point / "file", 100)
    allocation.allocate(home.disk / "filler", home.disk_free() - 64 * MB, thin=False, progress=ignore_progress)
    for _ in range(8):
        home.space.adjust()
        home.assert_all_reserved()
    assert home.disk_free() > FLOOR - 32 * MB
    (home.disk / "filler").unlink()
    home.space.adjust()
    assert home.free() > 480 * MB
    home.assert_all_reserved()


def test_nothing_is_lost_on_a_disk_with_no_space_at_all(home: ThinHome) -> None:
    """What the image offers can be written, whatever other programs do to the disk."""
    fill_completely(home.disk / "filler")
    count = home.free() // MB - 8
    write(home.mount_point / "file", count)
    content = (home.mount_point / "file").read_bytes()
    Path("/proc/sys/vm/drop_caches").write_text("1")
    assert (home.mount_point / "file").read_bytes() == content
    with pytest.raises(OSError, match="No space left on device"):
        write(home.mount_point / "too much", 64)
    for number in range(500):  # metadata
        (home.mount_point / f"empty-{number}").unlink(missing_ok=True)
    (home.disk / "filler").unlink()
    home.image.unmount()
    check_xfs(home.image.file)


def test_an_interrupted_change_is_completed_at_the_next_start(home: ThinHome) -> None:
    with (home.mount_point / NAME).open("r+b") as file:  # killed before the size was recorded
        subprocess.run(["fallocate", "--keep-size", "-o", str(home.withheld()), "-l", "64M", file.name], check=True)
        os.fsync(file.fileno())
    with home.image.file.open("r+b") as file:  # or before disk space was returned
        allocation.reserve(file.fileno(), 0, home.image.size)
    home.space.close()
    home.space.prepare()
    home.space.adjust()
    home.assert_all_reserved()
    assert (home.mount_point / NAME).stat().st_blocks * BLOCK == home.withheld()


def test_an_image_with_holes_gets_its_disk_space_at_the_next_start(home: ThinHome) -> None:
    """As a copy of the file has, or an image of an earlier version, which returned all freed space."""
    write(home.mount_point / "file", 100)
    home.space.close()
    (home.mount_point / NAME).unlink()
    subprocess.run(["sync", "-f", home.mount_point], check=True)
    subprocess.run(["fallocate", "--dig-holes", home.image.file], check=True)
    wait_until(lambda: home.free() > 2000 * MB)
    home.space.prepare()
    assert 480 * MB < home.free() <= 513 * MB
    home.assert_all_reserved()


def test_on_a_disk_that_is_full_only_what_is_reserved_is_offered(home: ThinHome) -> None:
    home.space.close()
    (home.mount_point / NAME).unlink()
    wait_until(lambda: home.free() > 2000 * MB)
    fill_completely(home.disk / "filler")
    home.space.prepare()
    assert home.free() < (512 * MB - FLOOR) // 2 + 16 * MB
    home.assert_all_reserved()
    (home.disk / "filler").unlink()
    home.space.adjust()
    assert home.free() > 480 * MB


def test_nothing_is_created_where_the_image_is_not_mounted(home: ThinHome) -> None:
    home.image.unmount()
    home.space.adjust()
    assert list(home.mount_point.iterdir()) == []
    home.image.ensure_mounted()


def test_an_image_that_was_enlarged_has_disk_space_for_what_it_offers(home: ThinHome) -> None:
    os.truncate(home.image.file, home.image.size + 200 * MB)
    device = subprocess.run(
        ["findmnt", "-no", "SOURCE", home.mount_point], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(["losetup", "--set-capacity", device], check=True)
    subprocess.run(["xfs_growfs", home.mount_point], check=True, capture_output=True)
    write(home.mount_point / "file", 300)
    home.space.adjust()
    allocated = home.image.file.stat().st_blocks * BLOCK
    assert allocated + home.withheld() >= home.image.file.stat().st_size


def test_freed_blocks_keep_their_disk_space_until_they_are_withheld(home: ThinHome) -> None:
    write(home.mount_point / "file", 200)
    (home.mount_point / "file").unlink()
    subprocess.run(["sync", "-f", home.mount_point], check=True)
    subprocess.run(["fstrim", home.mount_point], check=False, capture_output=True)
    home.assert_all_reserved()


def test_the_free_space_is_what_can_be_written(home: ThinHome) -> None:
    folders = Folders(storage.storage_settings(home.image.home))
    folders.ensure()
    free, total = free_space.measure_space(folders, FLOOR)
    possible = home.free() + home.disk_free() - FLOOR
    assert abs(free - possible) < MB
    assert free < total <= home.image.size
    assert free_space.explain_shortage(folders, FLOOR) is None
    assert str(free_space.explain_shortage(folders, home.disk_free() + MB)).startswith(
        f"The disk under the thin storage image {home.image.file} has "
    )


def fill_completely(filler: Path) -> None:
    """Use up all blocks, with those that ext4 reserves for root."""
    with filler.open("wb", buffering=0) as file:
        for size in (MB, 4096):
            try:
                while True:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
            except OSError:
                continue
