"""Building an install from a mirror: what is in the lock, what is newer, and what interrupts it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bough.config import Settings
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import debian_build, locks, removal, selection, server_trial, update
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import find_installs
from bough.engine.local.progress import ignore_progress
from bough.engine.port import EngineError
from engine.debian.conftest import Build, list_managed
from support.deb_files import make_file
from support.debian_mirror import SUITE, Behaviour, DebianMirror, FolderHandler, FolderServer, server_files
from support.program import wait_until
from support.requirements import require_root

NEWER = "17.13-0+deb13u1"


@pytest.fixture
def lock(mirror: DebianMirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock names what the mirror has at first."""
    locked = mirror.list_locked()
    monkeypatch.setattr(locks, "read", lambda _name, _architecture: locked)


@pytest.fixture
def settings(site: FolderServer, tmp_path: Path, cache: Path) -> Settings:
    (tmp_path / "home").mkdir()
    return Settings(home=tmp_path / "home", cache=cache, debian_mirror=site.url)


def replace_server(mirror: DebianMirror, version: str) -> None:
    """Do what Debian does at a new minor version: the old files leave the mirror."""
    mirror.add_server().unlink()
    mirror.add_server(version)
    mirror.publish()


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("lock")
def test_locked_packages_need_no_index(mirror: DebianMirror, site: FolderServer, build: Build) -> None:
    install = build()
    assert sorted(site.requests) == sorted(f"/{each.file.path}" for each in mirror.list_locked())
    record = BuildRecord.read(install.root)
    assert record is not None
    assert record.packages["postgresql-17"] == "17.12-0+deb13u1"
    assert "usr/lib/libpq.so.5" in list_files(install.root)
    site.requests.clear()
    assert build() == install
    assert not site.requests


@pytest.mark.usefixtures("lock")
def test_when_a_locked_package_vanished_the_newest_is_resolved(mirror: DebianMirror, build: Build) -> None:
    replace_server(mirror, NEWER)
    assert build().version == "17.13"


@pytest.mark.usefixtures("lock")
def test_a_mirror_with_older_packages_is_refused(mirror: DebianMirror, build: Build, cache: Path) -> None:
    replace_server(mirror, "17.11-0+deb13u1")
    with pytest.raises(PackageError, match=r"offers libpq5 17\.11-0\+deb13u1, which is older than 17\.12-0\+deb13u1"):
        build()
    assert not list_managed(cache)


def test_an_update_does_not_go_back_behind_the_selected_build(mirror: DebianMirror, settings: Settings) -> None:
    """The mirror replays the index of an earlier day, which is newer than the lock."""
    replace_server(mirror, NEWER)
    [change] = update.update(settings, ignore_progress)
    assert change.after.version == "17.13"
    before = selection.read(settings.home)
    replace_server(mirror, "17.12-0+deb13u1")
    with pytest.raises(PackageError, match=r"older than 17\.13"):
        update.update(settings, ignore_progress)
    assert selection.read(settings.home) == before
    assert [each.version for each in list_managed(settings.cache)] == ["17.13"]


def test_without_news_an_update_changes_nothing(settings: Settings) -> None:
    assert [each.before for each in update.update(settings, ignore_progress)] == [None]
    assert update.update(settings, ignore_progress) == []


def test_the_security_suite_goes_before_the_main_one(mirror: DebianMirror, build: Build) -> None:
    mirror.add("libpq5", NEWER, [], suite=f"{SUITE}-security")
    mirror.publish(f"{SUITE}-security")
    record = BuildRecord.read(build().root)
    assert record is not None
    assert (record.packages["libpq5"], record.packages["postgresql-17"]) == (NEWER, "17.12-0+deb13u1")


def test_an_interrupted_download_continues(mirror: DebianMirror, site: FolderServer, cache: Path) -> None:
    """A file that arrived before the mirror failed is not downloaded again."""
    server, library = mirror.add_server().name, "libpq5_17.12-0+deb13u1"
    mirror.publish()
    site.behaviours[server] = fail_after(library)
    with Mirrors.open(site.url) as opened:
        assert opened is not None
        with pytest.raises(PackageError, match="does not answer"):
            debian_build.build_default(17, opened, cache)
        assert not list_managed(cache)
        site.behaviours.clear()
        site.requests.clear()
        assert debian_build.build_default(17, opened, cache).version == "17.12"
    assert [each for each in site.requests if server in each]
    assert not [each for each in site.requests if library in each]


def fail_after(other: str) -> Behaviour:
    def act(request: FolderHandler) -> bool:
        wait_until(lambda: any(other in each for each in request.site.requests))
        request.send_error(500)
        return False

    return act


def test_a_damaged_download_is_repeated(site: FolderServer, cache: Path, mirror: DebianMirror) -> None:
    """The power failed while the file was written."""
    for each in mirror.list_locked():
        (cache / "downloads").mkdir(parents=True, exist_ok=True)
        (cache / "downloads" / each.file.sha256).write_bytes(bytes(each.file.size))
    with Mirrors.open(site.url) as opened:
        assert opened is not None
        assert debian_build.build_default(17, opened, cache).version == "17.12"


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    require_root()
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize(("size", "stage"), [("64k", "download"), ("512k", "unpack")])
def test_a_full_disk_is_said_and_leaves_nothing(
    mirror: DebianMirror, build: Build, cache: Path, size: str, stage: str
) -> None:
    name = "usr/share/postgresql/17/timezonesets/Default"
    content = bytes(2**20) if stage == "unpack" else os.urandom(2**17)  # zeros take no space in the package
    mirror.add("postgresql-17", "17.12-0+deb13u1", [*server_files(), make_file(name, content)])
    mirror.publish()
    with small_disk(cache, size):
        with pytest.raises(EngineError, match=rf"The disk of {cache} is full\. Free about \d+ MB and start again"):
            build()
        assert not list_managed(cache)
        assert list_files(cache / "postgres") == {".lock"}
        subprocess.run(["mount", "-o", "remount,size=8m", cache], check=True)
        assert build().version == "17.12"


def test_a_server_that_does_not_run_leaves_nothing(mirror: DebianMirror, build: Build, cache: Path) -> None:
    mirror.add("postgresql-17", "17.12-0+deb13u1", server_files("18.1"))
    mirror.publish()
    with pytest.raises(EngineError, match=r"The server of Debian's Postgres 17 does not run here: no output"):
        build()
    assert list_files(cache / "postgres") == {".lock"}


def test_a_killed_build_is_repeated(build: Build, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is killed before its record is written is not used."""

    def die(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(server_trial, "check_runs", die)
        with pytest.raises(KeyboardInterrupt):
            build()
    assert [path for path in (cache / "postgres").iterdir() if path.is_dir()]
    assert not list_managed(cache)
    assert build().version == "17.12"


def test_what_an_interrupted_build_left_is_removed(build: Build, cache: Path) -> None:
    kept = build()
    for name in (f"{kept.id}.making", "debian-17.99-0+deb13u1-1a2b3c4d", "wheel-17.11"):
        (cache / "postgres" / name / "usr").mkdir(parents=True)
    removal.remove_unused(cache)
    assert {path.name for path in (cache / "postgres").iterdir()} == {".lock", kept.id}
    assert find_installs(cache)[kept.id] == kept
