"""Volume drivers when the source is in use, the disk is full or the tenant is hostile."""

import errno
import os
import random
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from bough.engine.local.isolation.sandbox import current_identity
from bough.engine.local.tenant_file_checks import TenantFileError
from bough.engine.local.volumes.disk_usage import measure_disk_usage
from bough.engine.local.volumes.tree_copy import copy_tree
from contracts.driver_workspace import (
    COPY_ON_WRITE,
    DRIVERS,
    MB,
    TENANT,
    DriverWorkspace,
    open_driver_folder,
    read_tree,
)
from support.loop_images import mount_loop_image
from support.platform import temporary_folder
from support.requirements import require_cow, require_root


def test_what_is_no_file_is_not_waited_for(workspace: DriverWorkspace) -> None:
    workspace.fill({"base/5/1": b"x"})
    os.mkfifo(workspace.source_folder / "base" / "pipe")
    assert (workspace.clone() / "base" / "5" / "1").read_bytes() == b"x"
    assert measure_disk_usage(workspace.source_folder) == measure_disk_usage(workspace.copy_folder)


class ConcurrentWriter:
    """A thread that appends to, truncates, creates and removes files, as a running server does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._random = random.Random(1)

    def __enter__(self) -> "ConcurrentWriter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        for number in range(10**9):
            if self._stopping.is_set():
                return
            path = self._folder / "base" / "5" / str(self._random.randrange(40))
            with path.open("ab") as file:
                file.write(bytes(self._random.randrange(20_000)))
                file.truncate(self._random.randrange(file.tell() + 1))
            os.truncate(self._folder / "base" / "large", self._random.randrange(80) * MB + number % 7)
            folder = self._folder / "base" / f"db{number % 5}"
            folder.mkdir(exist_ok=True)
            (folder / "1").touch()
            (folder / "1").unlink()
            folder.rmdir()
            path.unlink()


def test_a_source_in_use_is_cloned_as_far_as_it_is_there(workspace: DriverWorkspace, is_long_run: bool) -> None:
    constant = {f"base/4/{number}": os.urandom(5000) for number in range(100)}
    workspace.fill(constant | {"base/5/1": b"", "base/large": os.urandom(40 * MB)})
    with ConcurrentWriter(workspace.source_folder):
        for _ in range(100 if is_long_run else 10):
            copied = workspace.clone()
            assert constant.items() <= read_tree(copied).items()
            assert (copied / "base" / "large").exists()
            assert (
                measure_disk_usage(workspace.source_folder).own + measure_disk_usage(workspace.source_folder).shared > 0
            )
            workspace.driver.remove(copied)


def test_a_link_in_the_place_of_a_folder_does_not_lead_elsewhere(workspace: DriverWorkspace, is_long_run: bool) -> None:
    workspace.fill({f"base/5/{number}": b"mine" for number in range(20)})
    secret = workspace.folder / "secret"
    secret.mkdir()
    for number in range(20):
        (secret / str(number)).write_bytes(b"secret")
    stopping = threading.Event()

    def swap() -> None:
        folder, link, aside = (workspace.source_folder / "base" / name for name in ("5", "link", "aside"))
        while not stopping.is_set():
            link.symlink_to(secret)
            folder.rename(aside)
            link.rename(folder)
            folder.unlink()
            aside.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(200 if is_long_run else 20):
            with suppress(OSError):  # a clone may fail, but must not leak
                workspace.clone()
            assert b"secret" not in {
                path.read_bytes() for path in workspace.copy_folder.rglob("*[0-9]") if is_plain_file(path)
            }
            workspace.driver.remove(workspace.copy_folder)
    finally:
        stopping.set()
        swapper.join()


def test_a_folder_that_becomes_a_link_while_it_is_copied_is_not_followed(tmp_path: Path) -> None:
    for name in ("source/base", "secret", "copy"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "source" / "first").touch()
    (tmp_path / "secret" / "1").touch()

    def swap(_from: int, _into: int, _seen: os.stat_result) -> None:
        (tmp_path / "source" / "base").rmdir()
        (tmp_path / "source" / "base").symlink_to(tmp_path / "secret")

    with pytest.raises(TenantFileError):
        copy_tree(tmp_path / "source", tmp_path / "copy", current_identity(), swap)
    assert set(read_tree(tmp_path / "copy")) == {"first", "base"}


def is_plain_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode) and not any(parent.is_symlink() for parent in path.parents)


def test_a_half_made_volume_is_removed(workspace: DriverWorkspace) -> None:
    volume = workspace.folder / "volume"
    volume.mkdir()
    (volume / "data").touch()
    workspace.driver.remove(volume)
    volume.mkdir()
    workspace.driver.make_folder(volume / "data")
    (volume / "data" / "base").mkdir()
    workspace.driver.remove(volume)
    assert list(workspace.folder.iterdir()) == []


def test_a_folder_that_is_in_use_is_removed(workspace: DriverWorkspace) -> None:
    workspace.fill({f"base/5/{number}": b"x" for number in range(500)})
    paths = sorted((workspace.source_folder / "base" / "5").iterdir())

    def unlink_all() -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                path.unlink()

    unlinking = threading.Thread(target=unlink_all)
    with (workspace.source_folder / "base" / "5" / "7").open() as file:
        unlinking.start()
        workspace.driver.remove(workspace.source_folder)
        unlinking.join()
        assert file.read() == "x"
    assert list(workspace.folder.iterdir()) == []


def test_a_folder_deeper_than_one_can_go_down_is_no_obstacle(workspace: DriverWorkspace) -> None:
    require_root()
    workspace.fill({"base/5/1": b"x"})
    folder = os.open(workspace.source_folder / "base", os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("deep", dir_fd=folder)
        subfolder = os.open("deep", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = subfolder
    os.close(folder)
    assert measure_disk_usage(workspace.source_folder).own > 0
    with pytest.raises(OSError, match="are nested"):
        workspace.clone(TENANT)
    workspace.driver.remove(workspace.copy_folder)
    workspace.driver.remove(workspace.source_folder)
    assert list(workspace.folder.iterdir()) == []


def test_what_a_tenant_put_into_its_folder_does_not_keep_it(workspace: DriverWorkspace) -> None:
    workspace.fill({"base/5/1": b"x"})
    workspace.driver.make_folder(workspace.source_folder / "base" / "another")
    (workspace.source_folder / "base" / "another" / "file").touch()
    workspace.driver.remove(workspace.source_folder)
    assert list(workspace.folder.iterdir()) == []


def test_without_a_hurry_too_only_what_is_in_the_folder_goes(workspace: DriverWorkspace) -> None:
    """A tenant may have replaced its large files by links to anything, or by pipes."""
    elsewhere = workspace.folder / "elsewhere"
    (elsewhere / "5").mkdir(parents=True)
    kept = {path: os.urandom(5 * MB) for path in (elsewhere / "target", elsewhere / "twin", elsewhere / "5" / "1")}
    for path, content in kept.items():
        path.write_bytes(content)
    workspace.fill({"base/5/1": os.urandom(5 * MB), "base/5/2": b"x", "base/file": os.urandom(5 * MB)})
    volume = workspace.folder / "volume"
    volume.mkdir()
    workspace.driver.clone(workspace.source_folder, volume / "data", current_identity())
    base = volume / "data" / "base"
    (base / "5" / "link").symlink_to(elsewhere / "target")
    (base / "away").symlink_to(elsewhere / "5")
    os.mkfifo(base / "5" / "pipe")
    with suppress(OSError):  # where the file system allows such a size
        os.truncate(base / "5" / "2", 1 << 60)
    if workspace.driver.name != "btrfs":  # a subvolume has no hard links to files outside
        os.link(elsewhere / "twin", base / "5" / "twin")
    before = read_tree(workspace.source_folder)
    for path in (volume, volume, workspace.folder / "never" / "was"):
        workspace.driver.remove(path, threading.Event())
    assert not volume.exists()
    assert read_tree(workspace.source_folder) == before
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize("is_hurried", [False, True])
def test_a_file_that_lies_scattered_goes_in_pieces_when_there_is_time(
    monkeypatch: pytest.MonkeyPatch, is_hurried: bool
) -> None:
    lengths = [24 * MB]

    def truncate(file: int, length: int) -> None:
        lengths.append(length)
        os.truncate(file, length)

    stop_pacing = threading.Event()
    if is_hurried:
        stop_pacing.set()
    with open_driver_folder("reflink") as folder:
        workspace = DriverWorkspace(DRIVERS["reflink"](), folder)
        workspace.fill({"base/5/1": os.urandom(lengths[0])})
        volume = folder / "volume"
        volume.mkdir()
        workspace.driver.clone(workspace.source_folder, volume / "data", current_identity())
        with (volume / "data" / "base" / "5" / "1").open("r+b") as file:
            for page in range(0, lengths[0] // 8192, 2):
                file.seek(page * 8192)
                file.write(os.urandom(8192))
            os.fsync(file.fileno())
        monkeypatch.setattr(os, "ftruncate", truncate)
        workspace.driver.remove(volume, stop_pacing)
        assert not volume.exists()
    steps = [before - after for before, after in pairwise(lengths)]
    if is_hurried:
        assert steps == []
        return
    assert lengths[-1] == 0
    assert len(steps) > 3000 / 256, "a piece has few extents"
    assert 0 < min(steps) <= max(steps) < 4 * MB


AS_AN_ORDINARY_USER = """
import os, sys
from pathlib import Path
from bough.engine.local.isolation.sandbox import current_identity
from bough.engine.local.volumes.{module} import {driver} as Driver
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
driver, volume = Driver(), Path(sys.argv[1]) / "volume"
volume.mkdir()
driver.make_folder(volume / "source")
(volume / "source" / "file").write_text("hello")
driver.clone(volume / "source", volume / "data", current_identity())
driver.clone_file(volume / "data" / "file", volume / "file", current_identity())
print((volume / "file").read_text())
driver.remove(volume)
driver.remove(volume)
"""


def test_an_ordinary_user_can_make_clone_and_remove(workspace: DriverWorkspace) -> None:
    require_root()
    folder = workspace.folder / "nobody"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    script = AS_AN_ORDINARY_USER.format(module=workspace.driver.name, driver=type(workspace.driver).__name__)
    result = subprocess.run([sys.executable, "-c", script, folder], check=False, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("hello\n", "")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_full_disk_is_an_error_and_what_it_left_can_be_removed(driver: str) -> None:
    require_cow()
    with mount_loop_image(COPY_ON_WRITE.get(driver, "xfs"), 300) as folder, temporary_folder() as elsewhere:
        (elsewhere / "source").mkdir()
        (elsewhere / "source" / "large").write_bytes(bytes(310 * MB))
        with pytest.raises(OSError, match="No space left") as raised:
            DRIVERS[driver]().clone(elsewhere / "source", folder / "copy", current_identity())
        assert raised.value.errno == errno.ENOSPC
        DRIVERS[driver]().remove(folder / "copy")
        assert list(folder.iterdir()) == []
