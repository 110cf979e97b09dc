"""`bough storage`: an image is created completely or not at all, mounted at every start, and reported."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bough.cli.storage import preconditions
from bough.config import Settings, default_cache
from bough.engine.local.folders import Folders
from bough.errors import PreconditionFailed
from support.program import NOBODY, Program, Result, create_project, make_environment, wait_until
from support.requirements import require_cow
from support.storage import (
    create_home_image,
    list_loop_devices,
    list_mounts,
    plan_image,
    read_tree_metadata,
    release_mounts,
    storage_settings,
    write_volumes,
)

INIT = ("--size", "1G", "--thin")


@pytest.fixture(autouse=True)
def nothing_stays_mounted(folder: Path) -> Iterator[None]:
    require_cow()
    with release_mounts(folder):
        yield


def init(bough: Program, *arguments: str) -> Result:
    return bough.run("storage", "init", "--home", str(bough.home), *arguments)


def status(bough: Program) -> dict[str, Any]:
    done = bough.run("storage", "status", "--home", str(bough.home), "--json")
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if result["image"] and not result["image"]["mounted"] else 0)
    return result


def assert_refused(bough: Program, done: Result, *phrases: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bough: ")
    for phrase in phrases:
        assert phrase in done.stderr
    assert not list(bough.home.glob("*.making"))
    assert list_mounts(bough.home) == []


class Tenant:
    """A client with a project on a platform that runs in the background."""

    def __init__(self, bough: Program) -> None:
        self._bough = bough
        created = create_project(bough.up(), "orchard")
        self.endpoint: str = created["endpoints"][0]["id"]

    def value(self, sql: str) -> str:
        """Runs a query through the gateway, which starts the compute."""
        done = self._bough.run("psql", "orchard", "--home", str(self._bough.home), "-Atc", sql)
        assert done.returncode == 0, done.stderr
        wait_until(lambda: self._bough.status()["operations_open"] == 0)
        return done.stdout.strip()


@pytest.mark.parametrize(("fs", "driver"), [("xfs", "reflink"), pytest.param("btrfs", "btrfs", marks=pytest.mark.long)])
def test_a_project_moves_in_when_nothing_runs_and_goes_on(bough: Program, fs: str, driver: str) -> None:
    tenant = Tenant(bough)
    tenant.value("create table kept as select 'here' as word")
    assert_refused(bough, init(bough, *INIT), f"Bough is already running in {bough.home}", "stop it")
    os.kill(bough.supervisor_pid(), signal.SIGKILL)
    wait_until(lambda: bough.status()["state"] == "stopped")
    assert_refused(
        bough, init(bough, *INIT), f"still running in {bough.home}: run `", f"down --home {bough.home}` first."
    )
    assert bough("down").returncode == 0
    assert status(bough)["driver"] == "plain"

    done = init(bough, *INIT, "--fs", fs, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["fs"], result["thin"], result["size"]) == (fs, True, 1024**3)
    assert result["mounted_at"] == str(bough.home / "storage")
    assert result["moved_bytes"] > 30 * 1024**2
    assert not (bough.home / "volumes").exists()

    bough.up()
    assert tenant.value("select word from kept") == "here"
    after = status(bough)
    assert (after["driver"], after["file_system"], after["refuses_new"]) == (driver, fs, None)
    volume = next(each for each in after["volumes"] if each["project"] == "orchard")
    assert (volume["branch"], volume["endpoint"]) == ("main", tenant.endpoint)
    assert volume["total"] == volume["own"] + volume["shared"] > 30 * 1024**2


def test_it_is_mounted_at_every_start_stays_after_a_stop_and_nothing_new_is_made_without_it(bough: Program) -> None:
    assert init(bough, *INIT).returncode == 0
    subprocess.run(["umount", bough.home / "storage"], check=True)
    assert status(bough)["image"]["mounted"] is False
    tenant = Tenant(bough)
    assert status(bough)["image"]["mounted"]
    tenant.value("create table kept as select 'here' as word")

    subprocess.run(["umount", "--lazy", bough.home / "storage"], check=True)
    assert "is not mounted at" in status(bough)["refuses_new"]
    assert bough("restart").returncode == 0
    assert status(bough)["refuses_new"] is None
    assert tenant.value("select word from kept") == "here"
    assert len(list_loop_devices(bough.home)) == 1

    assert bough("down").returncode == 0
    assert status(bough)["image"]["mounted"]


def test_an_allocated_image_elsewhere(bough: Program) -> None:
    with tempfile.TemporaryDirectory(prefix="bough-", dir="/var/tmp") as folder, release_mounts(Path(folder)):
        file = Path(folder) / "large.img"
        done = init(bough, "--size", "1G", "--image", str(file))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"The storage image {file} (xfs, 1.0 GB) is mounted at {bough.home}/storage.\n")
        assert re.search(f"\nStart the platform with `[^`]* up --home {bough.home}`\\.\n$", done.stdout)
        assert [line.rstrip("…").strip() for line in done.stderr.splitlines()] == [
            "Reserving disk space",
            "Creating xfs",
        ]
        assert file.stat().st_blocks * 512 >= 1024**3
        assert status(bough)["image"]["file"] == str(file)
        subprocess.run(["umount", bough.home / "storage"], check=True)


def test_the_overview_for_people(bough: Program) -> None:
    create_home_image(_make_home(bough.home))
    write_volumes(bough.home / "storage", 2)
    lines = bough.run("storage", "status", "--home", str(bough.home)).stdout.splitlines()
    facts = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert facts["driver"] == "reflink"
    assert facts["image"].startswith(f"{bough.home}/storage.img (thin, 1.0 GB, ")
    assert facts["new"] == "projects      accepted"
    assert lines[lines.index("") + 1].split() == ["project", "branch", "volume", "endpoint", "own", "shared", "total"]
    assert [line.split()[2] for line in lines if "vol-" in line] == ["vol-0", "vol-1"]
    assert lines[-1].startswith("2 volumes ")


def test_without_a_home_there_is_nothing_to_show_and_nothing_is_make_home(bough: Program) -> None:
    assert status(bough)["volumes"] == []
    assert not bough.home.exists()


def test_a_second_image_is_refused(bough: Program) -> None:
    create_home_image(_make_home(bough.home)).unmount()
    assert_refused(
        bough, init(bough, *INIT), f"{bough.home} already has a storage image, {bough.home}/storage.img; show it with `"
    )


def test_a_file_that_is_there_is_not_overwritten(bough: Program, folder: Path) -> None:
    (folder / "mine").write_text("precious")
    assert_refused(bough, init(bough, *INIT, "--image", str(folder / "mine")), f"The file {folder}/mine already exists")
    assert (folder / "mine").read_text() == "precious"


def test_a_folder_that_is_not_there_is_named(bough: Program, folder: Path) -> None:
    done = init(bough, *INIT, "--image", str(folder / "none" / "x.img"))
    assert_refused(bough, done, f"The folder {folder}/none does not exist: run `mkdir -p {folder}/none`")


def test_a_link_in_the_place_of_volumes_is_not_followed(bough: Program, folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (_make_home(bough.home) / "volumes").symlink_to(folder / "elsewhere")
    done = init(bough, *INIT)
    assert_refused(
        bough, done, f"{bough.home}/volumes is a symbolic link", f"mv {folder}/elsewhere {bough.home}/volumes`"
    )


def test_an_image_larger_than_the_disk_is_refused(bough: Program) -> None:
    done = init(bough, "--size", "900T")
    assert_refused(bough, done, "an image of 921600.0 GB would leave less than 512 MB", "--thin")


def test_only_root_makes_one(bough: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "is_root", lambda: False)
    with pytest.raises(
        PreconditionFailed, match=r"Only root can create and mount an image: run `sudo .*--size 50G --home /"
    ):
        preconditions.require_root(Settings(home=bough.home), "--size 50G")


def test_only_root_starts_a_platform_whose_image_is_not_mounted(bough: Program) -> None:
    create_home_image(_make_home(bough.home)).unmount()
    os.chown(bough.home, NOBODY, NOBODY)
    bough.variables = {"BOUGH_CACHE": str(default_cache())}
    done = bough.run_as_user(NOBODY, "up")
    assert_refused(
        bough,
        done,
        f"The storage of {bough.home} is not mounted, and only root can mount it: run `sudo bough up --home",
    )


def test_a_missing_mkfs_is_named_with_its_package(bough: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name, path: None)
    with pytest.raises(PreconditionFailed, match=r"mkfs.btrfs is not installed: run `apt-get install btrfs-progs`"):
        preconditions.check_home(plan_image(_make_home(bough.home), "btrfs"), Settings(home=bough.home))


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "the draft is written": lambda home: (home / "storage.json.making").exists(),
    "the file is there": lambda home: (home / "storage.img.making").exists(),
    "it is mounted": lambda home: (home / "storage").is_mount(),
    "a part is moved": lambda home: (home / "storage" / "volumes").exists(),
    "most is moved": lambda home: (home / "storage" / "templates").exists(),
    "the record is written": lambda home: (home / "storage.json").exists(),
}


EVERY_DAY = ("it is mounted", "a part is moved", "the record is written")


@pytest.mark.parametrize(
    "moment", [each if each in EVERY_DAY else pytest.param(each, marks=pytest.mark.long) for each in MOMENTS]
)
def test_killed_at_any_moment_nothing_is_lost_and_nothing_is_left(bough: Program, moment: str) -> None:
    write_volumes(_make_home(bough.home), 60, size=30_000)
    before = read_tree_metadata(bough.home / "volumes")
    _kill_when(bough, MOMENTS[moment])
    done = init(bough, *INIT)
    if done.returncode != 0:
        assert "already has a storage image" in done.stderr
    Folders(storage_settings(bough.home)).ensure()  # like the next start
    assert read_tree_metadata(bough.home / "storage" / "volumes") == before
    assert not (bough.home / "volumes").exists()
    assert not list(bough.home.glob("*.making"))
    assert len(list_mounts(bough.home)) == len(list_loop_devices(bough.home)) == 1


def test_a_home_behind_a_link_is_cleared_like_any_other(bough: Program, folder: Path) -> None:
    write_volumes(_make_home(folder / "real"), 60, size=30_000)
    bough.home.symlink_to(folder / "real")
    _kill_when(bough, MOMENTS["a part is moved"])
    assert init(bough, *INIT).returncode == 0
    assert len(list_mounts(folder)) == len(list_loop_devices(folder)) == 1


def test_killed_in_the_middle_the_home_is_as_it_was_and_the_doctor_says_so(bough: Program) -> None:
    write_volumes(_make_home(bough.home), 60, size=30_000)
    before = read_tree_metadata(bough.home / "volumes")
    _kill_when(bough, MOMENTS["a part is moved"])
    assert not (bough.home / "storage.json").exists()
    assert read_tree_metadata(bough.home / "volumes") == before
    findings = {each["name"]: each for each in json.loads(bough("doctor", "--json").stdout)}
    assert findings["storage"]["verdict"] == "warning"
    assert "storage.img.making is left over" in findings["storage"]["sentence"]


def test_the_doctor_looks_at_the_storage(bough: Program) -> None:
    def storage() -> tuple[str, str]:
        findings = {each["name"]: each for each in json.loads(bough("doctor", "--json").stdout)}
        return findings["storage"]["verdict"], findings["storage"]["sentence"]

    image = create_home_image(_make_home(bough.home))
    assert storage() == ("ok", "reflink: branches share unchanged data")
    image.unmount()
    assert storage() == ("ok", f"{image.file} will be mounted")
    image.file.rename(image.file.with_name("elsewhere"))
    assert storage()[0] == "failed"
    assert f"The storage image {image.file} is missing" in storage()[1]


def _make_home(home: Path) -> Path:
    home.mkdir(mode=0o711, exist_ok=True)
    return home


def _kill_when(bough: Program, condition: Callable[[Path], bool]) -> None:
    command = [sys.executable, "-m", "bough.cli.main", "storage", "init", "--home", str(bough.home), *INIT]
    process = subprocess.Popen(
        command, env=make_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and not condition(bough.home):
        time.sleep(0.001)
    process.kill()
    process.wait()
