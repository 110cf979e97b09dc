"""A cache at another path than the one at which its builds were created."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough.config import default_cache
from bough.engine.local.installs import debian_tree, download, moved_cache
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Install, installs_folder, read_install
from support.engine_home import EngineHome, temporary_home
from support.install_cache import copy_cache


@pytest.fixture(scope="module")
def debian() -> Install:
    return download.fetch_install(17, default_cache())


@pytest.fixture
def cache(debian: Install) -> Iterator[Path]:
    """A copy of the shared cache, whose files are hard links."""
    with copy_cache(debian) as folder:
        yield folder


@pytest.fixture
def moved(cache: Path, debian: Install) -> Install:
    """The build of the copy as it is when it was created at a path that no longer exists."""
    install = read_install(installs_folder(cache) / debian.id)
    assert install is not None
    record = BuildRecord.read(install.root)
    assert record is not None
    former = Path("/nonexistent/cache/postgres", install.id)
    debian_tree.adapt(install.root, former, install.major)
    record.moved_to(former).write(install.root)
    return install


def runs(install: Install) -> bool:
    try:
        subprocess.run([install.program_path("postgres"), "--version"], check=True, capture_output=True)
    except FileNotFoundError:  # its dynamic linker
        return False
    return True


async def test_computes_start_from_a_moved_cache(moved: Install, cache: Path) -> None:
    assert not runs(moved)
    with temporary_home(cache=cache) as settings:
        async with EngineHome.open(settings) as home:
            compute = await home.create_compute()
            assert await compute.fetch_value("select 1") == 1
            await compute.fetch_value("create extension pgcrypto")
            encrypted = await compute.fetch_value("select encrypt('text', 'key', 'bf')")
            assert encrypted, "OpenSSL's legacy provider is found at the new path"
    assert runs(moved)
    assert moved_cache.repair(cache) == []


def test_the_files_of_another_cache_do_not_change(moved: Install, cache: Path, debian: Install) -> None:
    names = [path.relative_to(debian.root) for path in (*debian.bin.iterdir(), debian.root / "openssl.cnf")]
    before = {name: (debian.root / name).read_bytes() for name in names}
    assert moved_cache.repair(cache) == [moved.id]
    assert runs(moved)
    assert {name: (debian.root / name).read_bytes() for name in names} == before
    assert runs(debian)


def test_another_path_to_the_same_files_is_no_move(cache: Path, debian: Install, tmp_path: Path) -> None:
    """Such as a link, a mount, or hard links to a cache that still exists."""
    assert moved_cache.repair(cache) == []
    (tmp_path / "link").symlink_to(debian.root.parents[1])
    assert moved_cache.repair(tmp_path / "link") == []


def test_an_interrupted_repair_is_repeated(moved: Install, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy2", fail)
        with pytest.raises(KeyboardInterrupt):
            moved_cache.repair(cache)
    assert moved_cache.repair(cache) == [moved.id]
    assert runs(moved)


def test_without_builds_nothing_is_created(tmp_path: Path) -> None:
    assert moved_cache.repair(tmp_path / "cache") == []
    assert not (tmp_path / "cache").exists()
