"""The storage image of a home: made whole or not at all, and never mistaken for another when it is mounted."""

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
TOO_MUCH = 1024**5


@pytest.fixture
def home() -> Iterator[Path]:
    with storage.create_empty_home() as made:
        yield made


def refused(home: Path) -> str:
    """The sentence with which a start is refused; nothing was mounted, and nothing made where it belongs."""
    with pytest.raises(EngineError) as refusal:
        Folders(storage.storage_settings(home)).ensure()
    assert not refusal.value.transient
    assert not (home / "storage" / "volumes").exists()
    assert not (home / "volumes").exists()
    return refusal.value.public_message


def test_without_a_record_volumes_are_in_the_home(home: Path) -> None:
    folders = Folders(storage.storage_settings(home))
    assert (folders.image, folders.volumes, folders.pg_wal) == (None, home / "volumes", None)
    folders.ensure()
    folders.check_storage()


@pytest.mark.parametrize(("fs", "wal"), [("xfs", "pg_wal"), ("btrfs", "pg_wal")])
def test_with_a_record_they_are_in_the_image(home: Path, fs: FileSystem, wal: str | None) -> None:
    made = storage.create_home_image(home, fs)
    folders = Folders(storage.storage_settings(home))
    folders.ensure()
    assert folders.volumes == home / "storage" / "volumes"
    assert folders.templates == home / "storage" / "templates"
    assert folders.pg_wal == (home / wal if wal else None)
    assert all(folder.is_dir() for folder in (folders.volumes, folders.templates, folders.pg_wal or home))
    assert folders.volumes.stat().st_dev != home.stat().st_dev
    assert json.loads((home / RECORD_FILE).read_text()) == {
        "id": made.id,
        "image": "storage.img",
        "fs": fs,
        "thin": True,
        "size": storage.SIZE,
    }
    assert (home / "storage" / MARKER_FILE).read_text().strip() == made.id


def test_an_unmount_waits_for_who_is_just_ending(home: Path) -> None:
    made = storage.create_home_image(home)
    with subprocess.Popen(["sleep", "0.5"], cwd=made.mount_point):
        made.unmount()
    assert not made.is_mounted()


def test_an_unmount_says_that_somebody_is_in_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_ENDING_SECONDS", 0.2)
    made = storage.create_home_image(home)
    with subprocess.Popen(["sleep", "60"], cwd=made.mount_point) as guest:
        with pytest.raises(EngineError, match="busy"):
            made.unmount()
        assert made.is_mounted()
        guest.kill()


def test_a_start_mounts_it_again_and_an_unmount_frees_its_device(home: Path) -> None:
    made = storage.create_home_image(home)
    (made.mount_point / "volumes").mkdir()
    made.unmount()
    assert not made.is_mounted()
    assert storage.list_loop_devices(home) == []
    for _ in range(2):
        Folders(storage.storage_settings(home)).ensure()
    assert made.is_mounted()
    assert (made.mount_point / "volumes").is_dir()
    assert len(storage.list_mounts(home)) == len(storage.list_loop_devices(home)) == 1


def test_a_lazy_unmount_and_a_mount_meet_on_one_device(home: Path) -> None:
    made = storage.create_home_image(home)
    with (made.mount_point / "in use").open("w") as file:
        subprocess.run(["umount", "--lazy", made.mount_point], check=True)
        made.ensure_mounted()
        file.write("still there")
        file.flush()
        assert (made.mount_point / "in use").read_text() == "still there"
        assert len(storage.list_loop_devices(home)) == 1


def test_a_moved_home_takes_its_image_with_it(home: Path) -> None:
    storage.create_home_image(home).unmount()
    moved = home.rename(home.with_name("moved"))
    Folders(storage.storage_settings(moved)).ensure()
    found = Image.load(moved)
    assert found is not None
    assert found.is_mounted()


def test_an_unmount_under_us_is_noticed(home: Path) -> None:
    made = storage.create_home_image(home)
    folders = Folders(storage.storage_settings(home))
    folders.check_storage()
    made.unmount()
    with pytest.raises(
        EngineError, match=r"is not mounted at .*/storage, so nothing can be made or started"
    ) as refusal:
        folders.check_storage()
    assert refusal.value.transient
    assert free_space.explain_rejection(folders, 0) == refusal.value.public_message
    assert list(made.mount_point.iterdir()) == []
    assert made.mount_point.stat().st_mode & 0o777 == 0


def test_a_missing_image_is_refused(home: Path) -> None:
    made = storage.create_home_image(home)
    made.unmount()
    made.file.unlink()
    assert refused(home) == (
        f"The storage image {made.file} is missing: put it back, "
        f'or write where it is now after "image" in {home}/storage.json.'
    )


def test_an_image_that_is_broken_is_refused(home: Path) -> None:
    made = storage.create_home_image(home)
    made.unmount()
    with made.file.open("r+b") as file:
        file.write(bytes(MB))
    sentence = refused(home)
    assert sentence.startswith(f"The storage image {made.file} could not be mounted: ")
    assert f"`xfs_repair -n {made.file}` looks for damage." in sentence
    assert storage.list_loop_devices(home) == []


def test_an_image_without_a_marker_is_refused(home: Path) -> None:
    made = storage.create_home_image(home)
    (made.mount_point / MARKER_FILE).unlink()
    made.unmount()
    assert refused(home) == (
        f"The image {made.file} is no storage of Bough, for it has no marker .bough-storage: put the right one back."
    )
    assert storage.list_mounts(home) == storage.list_loop_devices(home) == []


def test_the_image_of_another_home_is_refused(home: Path) -> None:
    made = storage.create_home_image(home)
    (made.mount_point / MARKER_FILE).write_text("other\n")
    made.unmount()
    assert f"is the storage of another home (its id is other, not {made.id})" in refused(home)
    assert storage.list_mounts(home) == []


@pytest.mark.parametrize(("marker", "what"), [(None, "Something else"), ("other", "Another storage")])
def test_something_else_in_its_place_is_refused(home: Path, marker: str | None, what: str) -> None:
    made = storage.create_home_image(home)
    made.unmount()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", made.mount_point], check=True)
    if marker:
        (made.mount_point / MARKER_FILE).write_text(marker)
    assert refused(home) == (
        f"{what} is mounted at {made.mount_point}, where {made.file} belongs: run `umount {made.mount_point}`."
    )


def test_only_root_can_mount_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = storage.create_home_image(home)
    made.unmount()
    monkeypatch.setattr(image, "is_root", lambda: False)
    assert refused(home) == (
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
    made = storage.create_home_image(home, fs)
    assert {name: storage.read_tree_metadata(made.mount_point / name) for name in ("volumes", "templates")} == before
    assert not (home / "volumes").exists()
    assert not (home / "templates").exists()
    data_folders = [*made.mount_point.glob("volumes/*/data"), *made.mount_point.glob("templates/*-17")]
    assert len(data_folders) == 4
    if fs == "btrfs":  # subvolumes, which have this number
        assert {folder.stat().st_ino for folder in data_folders} == {256}


def test_what_does_not_fit_is_refused_and_stays_where_it_is(home: Path) -> None:
    storage.write_volumes(home, 1)
    before = storage.read_tree_metadata(home)
    with pytest.raises(
        EngineError, match=r"take \d+ MB, and \d+ MB are to stay free .*more than the image has: give a larger --size"
    ):
        image_setup.create_image(storage.plan_image(home), TOO_MUCH, ignore_progress)
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
        made = storage.create_home_image(home)
    made.unmount()
    assert (home / "volumes").exists()
    assert not made.file.exists()
    Folders(storage.storage_settings(home)).ensure()
    assert storage.read_tree_metadata(made.mount_point / "volumes") == before
    assert not (home / "volumes").exists()
    assert made.file.exists()
    assert not made.staging_file.exists()


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
    with pytest.raises(EngineError, match=f"Something else is mounted at {home}/storage: run `umount {home}/storage`"):
        image_setup.create_image(storage.plan_image(home), 0, ignore_progress)
    assert not (home / DRAFT_FILE).exists()


def test_an_allocated_file_has_all_its_room(home: Path) -> None:
    allocation.allocate(home / "file", 8 * MB, thin=False, progress=ignore_progress)
    allocation.allocate(home / "thin", 8 * MB, thin=True, progress=ignore_progress)
    assert [(home / name).stat().st_size for name in ("file", "thin")] == [8 * MB, 8 * MB]
    assert (home / "file").stat().st_blocks * 512 >= 8 * MB
    assert (home / "thin").stat().st_blocks == 0


def test_where_room_cannot_be_reserved_zeros_are_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    told: list[int] = []
    monkeypatch.setattr(allocation, "_reserve", cannot)
    allocation.allocate(home / "file", 9 * MB, thin=False, progress=lambda _stage, done, _total: told.append(done))
    assert (home / "file").read_bytes() == bytes(9 * MB)
    assert (home / "file").stat().st_blocks * 512 >= 9 * MB
    assert told == [0, 4 * MB, 8 * MB, 9 * MB, 9 * MB]


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
    with pytest.raises(EngineError, match="so nothing new is made") as refusal:
        free_space.check_free_space(folders, 800 * MB)
    assert not refusal.value.transient
