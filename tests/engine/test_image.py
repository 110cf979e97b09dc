"""The storage image of a home: created completely or not at all, and never mistaken for another one."""

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough.engine.local import free_space
from bough.engine.local.folders import Folders
from bough.engine.local.images import allocation, image, image_setup, mounts
from bough.engine.local.images.image import DRAFT_FILE, MARKER_FILE, RECORD_FILE, FileSystem, Image
from bough.engine.local.progress import ignore_progress
from bough.engine.port import EngineError
from support import storage

MB = 1024**2
HUGE_FLOOR = 1024**5


@pytest.fixture
def home() -> Iterator[Path]:
    with storage.create_empty_home() as folder:
        yield folder


def expect_rejection(home: Path) -> str:
    """Return the message with which a start fails; nothing was mounted or created."""
    with pytest.raises(EngineError) as raised:
        Folders(storage.storage_settings(home)).ensure()
    assert not raised.value.transient
    assert not (home / "storage" / "volumes").exists()
    assert not (home / "volumes").exists()
    return raised.value.public_message


def test_without_a_record_volumes_are_in_the_home(home: Path) -> None:
    folders = Folders(storage.storage_settings(home))
    assert (folders.image, folders.volumes, folders.pg_wal) == (None, home / "volumes", None)
    folders.ensure()
    folders.check_storage()


@pytest.mark.parametrize(("fs", "wal"), [("xfs", "pg_wal"), ("btrfs", "pg_wal")])
def test_with_a_record_they_are_in_the_image(home: Path, fs: FileSystem, wal: str | None) -> None:
    created = storage.create_home_image(home, fs)
    folders = Folders(storage.storage_settings(home))
    folders.ensure()
    assert folders.volumes == home / "storage" / "volumes"
    assert folders.templates == home / "storage" / "templates"
    assert folders.pg_wal == (home / wal if wal else None)
    assert all(folder.is_dir() for folder in (folders.volumes, folders.templates, folders.pg_wal or home))
    assert folders.volumes.stat().st_dev != home.stat().st_dev
    assert json.loads((home / RECORD_FILE).read_text()) == {
        "id": created.id,
        "image": "storage.img",
        "fs": fs,
        "thin": True,
        "size": storage.SIZE,
    }
    assert (home / "storage" / MARKER_FILE).read_text().strip() == created.id


def test_an_unmount_waits_for_who_is_just_ending(home: Path) -> None:
    created = storage.create_home_image(home)
    with subprocess.Popen(["sleep", "0.5"], cwd=created.mount_point):
        created.unmount()
    assert not created.is_mounted()


def test_an_unmount_says_that_somebody_is_in_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_BUSY_TIMEOUT_SECONDS", 0.2)
    created = storage.create_home_image(home)
    with subprocess.Popen(["sleep", "60"], cwd=created.mount_point) as process:
        with pytest.raises(EngineError, match="busy"):
            created.unmount()
        assert created.is_mounted()
        process.kill()


def test_a_start_mounts_it_again_and_an_unmount_frees_its_device(home: Path) -> None:
    created = storage.create_home_image(home)
    (created.mount_point / "volumes").mkdir()
    created.unmount()
    assert not created.is_mounted()
    assert storage.list_loop_devices(home) == []
    for _ in range(2):
        Folders(storage.storage_settings(home)).ensure()
    assert created.is_mounted()
    assert (created.mount_point / "volumes").is_dir()
    assert len(storage.list_mounts(home)) == len(storage.list_loop_devices(home)) == 1


def test_a_lazy_unmount_and_a_mount_meet_on_one_device(home: Path) -> None:
    created = storage.create_home_image(home)
    with (created.mount_point / "in use").open("w") as file:
        subprocess.run(["umount", "--lazy", created.mount_point], check=True)
        created.ensure_mounted()
        file.write("still there")
        file.flush()
        assert (created.mount_point / "in use").read_text() == "still there"
        assert len(storage.list_loop_devices(home)) == 1


def test_a_moved_home_takes_its_image_with_it(home: Path) -> None:
    storage.create_home_image(home).unmount()
    moved = home.rename(home.with_name("moved"))
    Folders(storage.storage_settings(moved)).ensure()
    moved_image = Image.load(moved)
    assert moved_image is not None
    assert moved_image.is_mounted()


def test_an_unmount_under_us_is_noticed(home: Path) -> None:
    created = storage.create_home_image(home)
    folders = Folders(storage.storage_settings(home))
    folders.check_storage()
    created.unmount()
    with pytest.raises(
        EngineError, match=r"is not mounted at .*/storage, so nothing can be created or started"
    ) as refusal:
        folders.check_storage()
    assert refusal.value.transient
    assert free_space.explain_rejection(folders, 0) == refusal.value.public_message
    assert list(created.mount_point.iterdir()) == []
    assert created.mount_point.stat().st_mode & 0o777 == 0


def test_a_missing_image_is_refused(home: Path) -> None:
    created = storage.create_home_image(home)
    created.unmount()
    created.file.unlink()
    assert expect_rejection(home) == (
        f"The storage image {created.file} is missing: restore it, "
        f'or set "image" in {home}/storage.json to its new path.'
    )


def test_an_image_that_is_broken_is_refused(home: Path) -> None:
    created = storage.create_home_image(home)
    created.unmount()
    with created.file.open("r+b") as file:
        file.write(bytes(MB))
    message = expect_rejection(home)
    assert message.startswith(f"The storage image {created.file} could not be mounted: ")
    assert f"check the file system with `xfs_repair -n {created.file}`." in message
    assert storage.list_loop_devices(home) == []


def test_an_image_without_a_marker_is_refused(home: Path) -> None:
    created = storage.create_home_image(home)
    (created.mount_point / MARKER_FILE).unlink()
    created.unmount()
    assert expect_rejection(home) == (
        f"The image {created.file} is not a storage image of Bough: it has no marker .bough-storage. "
        "Restore the right file."
    )
    assert storage.list_mounts(home) == storage.list_loop_devices(home) == []


def test_the_image_of_another_home_is_refused(home: Path) -> None:
    created = storage.create_home_image(home)
    (created.mount_point / MARKER_FILE).write_text("other\n")
    created.unmount()
    assert f"is the storage of another home (its id is other, not {created.id})" in expect_rejection(home)
    assert storage.list_mounts(home) == []


@pytest.mark.parametrize(("marker", "what"), [(None, "Another file system"), ("other", "Another storage image")])
def test_something_else_in_its_place_is_refused(home: Path, marker: str | None, what: str) -> None:
    created = storage.create_home_image(home)
    created.unmount()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", created.mount_point], check=True)
    if marker:
        (created.mount_point / MARKER_FILE).write_text(marker)
    assert expect_rejection(home) == (
        f"{what} is mounted at {created.mount_point}, where {created.file} belongs: run `umount {created.mount_point}`."
    )


def test_only_root_can_mount_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created = storage.create_home_image(home)
    created.unmount()
    monkeypatch.setattr(image, "is_root", lambda: False)
    assert expect_rejection(home) == (
        f"The storage of {home} is not mounted, and only root can mount it: run `sudo bough up --home {home}`."
    )


@pytest.mark.parametrize("text", ["", "[]", '{"id": "x"}', '{"image": "i", "id": "x", "unknown": 1}'])
def test_a_record_that_cannot_be_read_is_no_empty_platform(home: Path, text: str) -> None:
    (home / RECORD_FILE).write_text(text)
    with pytest.raises(EngineError, match=r"The record .*/storage.json cannot be read: ") as refusal:
        Folders(storage.storage_settings(home))
    assert not refusal.value.transient


@pytest.mark.parametrize("fs", ["xfs", "btrfs"])
def test_what_the_home_holds_is_moved_in_exactly(home: Path, fs: FileSystem) -> None:
    storage.write_volumes(home, 3)
    before = {name: storage.read_tree_metadata(home / name) for name in ("volumes", "templates")}
    created = storage.create_home_image(home, fs)
    assert {name: storage.read_tree_metadata(created.mount_point / name) for name in ("volumes", "templates")} == before
    assert not (home / "volumes").exists()
    assert not (home / "templates").exists()
    data_folders = [*created.mount_point.glob("volumes/*/data"), *created.mount_point.glob("templates/*-17")]
    assert len(data_folders) == 4
    if fs == "btrfs":  # the inode number of every subvolume
        assert {folder.stat().st_ino for folder in data_folders} == {256}


def test_what_does_not_fit_is_refused_and_stays_where_it_is(home: Path) -> None:
    storage.write_volumes(home, 1)
    before = storage.read_tree_metadata(home)
    with pytest.raises(
        EngineError, match=r"take \d+ MB and \d+ MB must stay free .*more than the image has: set a larger --size"
    ):
        image_setup.create_image(storage.plan_image(home), HUGE_FLOOR, ignore_progress)
    assert storage.read_tree_metadata(home) == before
    assert storage.list_mounts(home) == storage.list_loop_devices(home) == []


def test_a_failure_in_the_middle_leaves_nothing(home: Path) -> None:
    storage.write_volumes(home, 1)
    before = storage.read_tree_metadata(home)

    def fail(stage: str, done: int, _total: int) -> None:
        if stage.startswith("moving") and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        image_setup.create_image(storage.plan_image(home), 0, fail)
    assert storage.read_tree_metadata(home) == before
    assert storage.list_mounts(home) == storage.list_loop_devices(home) == []


def test_a_start_finishes_what_a_crash_after_the_record_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write_volumes(home, 1)
    before = storage.read_tree_metadata(home / "volumes")
    with monkeypatch.context() as crash:
        crash.setattr(Image, "finish_setup", lambda _self: None)
        created = storage.create_home_image(home)
    created.unmount()
    assert (home / "volumes").exists()
    assert not created.file.exists()
    Folders(storage.storage_settings(home)).ensure()
    assert storage.read_tree_metadata(created.mount_point / "volumes") == before
    assert not (home / "volumes").exists()
    assert created.file.exists()
    assert not created.staging_file.exists()


def test_what_appears_in_the_home_later_is_never_removed(home: Path) -> None:
    storage.create_home_image(home)
    (home / "volumes").mkdir()
    Folders(storage.storage_settings(home)).ensure()
    assert (home / "volumes").is_dir()


def test_something_in_the_place_of_the_mount_point_stops_the_making(home: Path) -> None:
    (home / "storage").mkdir()
    (home / "storage" / "mine").touch()
    with pytest.raises(EngineError, match=f"is not empty: run `mv {home}/storage {home}/storage.old` first"):
        image_setup.create_image(storage.plan_image(home), 0, ignore_progress)
    (home / "storage" / "mine").unlink()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", home / "storage"], check=True)
    with pytest.raises(
        EngineError, match=f"Another file system is mounted at {home}/storage: run `umount {home}/storage`"
    ):
        image_setup.create_image(storage.plan_image(home), 0, ignore_progress)
    assert not (home / DRAFT_FILE).exists()


def test_an_allocated_file_has_all_its_room(home: Path) -> None:
    allocation.allocate(home / "file", 8 * MB, thin=False, progress=ignore_progress)
    allocation.allocate(home / "thin", 8 * MB, thin=True, progress=ignore_progress)
    assert [(home / name).stat().st_size for name in ("file", "thin")] == [8 * MB, 8 * MB]
    assert (home / "file").stat().st_blocks * 512 >= 8 * MB
    assert (home / "thin").stat().st_blocks == 0


def test_where_room_cannot_be_reserved_zeros_are_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    reported: list[int] = []
    monkeypatch.setattr(allocation, "reserve", fail)
    allocation.allocate(home / "file", 9 * MB, thin=False, progress=lambda _stage, done, _total: reported.append(done))
    assert (home / "file").read_bytes() == bytes(9 * MB)
    assert (home / "file").stat().st_blocks * 512 >= 9 * MB
    assert reported == [0, 4 * MB, 8 * MB, 9 * MB, 9 * MB]


def test_the_floor_counts_for_every_file_system(home: Path) -> None:
    below = home / "below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m", "tmpfs", below], check=True)
    thin = Image.plan(home, below / "storage.img", fs="btrfs", thin=True, size=storage.SIZE)
    image_setup.create_image(thin, 0, ignore_progress)
    folders = Folders(storage.storage_settings(home))
    folders.ensure()
    assert free_space.explain_shortage(folders, 500 * MB) is None
    assert str(free_space.explain_shortage(folders, 800 * MB)).startswith(
        f"The disk under the thin storage image {thin.file} has "
    )
    assert str(free_space.explain_shortage(folders, 1000 * MB)).startswith(f"The storage image {thin.file} has ")
    with pytest.raises(EngineError, match="so nothing new is created") as refusal:
        free_space.check_free_space(folders, 800 * MB)
    assert not refusal.value.transient
