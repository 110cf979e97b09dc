"""Requests for extensions in tests: Debian's index is read once, and each package is downloaded once."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bough.config import Settings, default_cache
from bough.engine.local.debian import indexes
from bough.engine.local.debian.package_index import PackageIndex
from bough.engine.local.extension_uses import UseCheck
from bough.engine.local.installs import download, package_cache
from bough.engine.local.installs.extension_requests import Request
from bough.engine.local.installs.installs import Install

EXTENSION = "h3"  # of the catalog, not in the default build, and small


def fetch_debian() -> Install:
    """Return the default build of Postgres 17."""
    install = download.fetch_install(17, default_cache())
    assert install.pin == "debian-17", "these tests need a mirror of Debian"
    return install


@contextmanager
def shared_downloads() -> Iterator[None]:
    """Keep Debian's index, and what builds download during the block, for the next ones."""
    known: dict[tuple[str, ...], PackageIndex] = {}
    read_index, download_packages = indexes.read_index, package_cache.download
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(dir=default_cache(), prefix="test-") as folder:

        def read_once(mirrors: Any, suites: Any, architecture: Any, progress: Any) -> PackageIndex:
            key = (*suites, architecture.name)
            if key not in known:
                known[key] = read_index(mirrors, suites, architecture, progress)
            return known[key]

        def download_once(mirrors: Any, packages: Any, target: Path, *arguments: Any) -> list[Path]:
            target.mkdir(parents=True, exist_ok=True)
            link_files(Path(folder), target)
            files: list[Path] = download_packages(mirrors, packages, target, *arguments)
            link_files(target, Path(folder))
            return files

        patch.setattr(indexes, "read_index", read_once)
        patch.setattr(package_cache, "download", download_once)
        yield


def link_files(source: Path, target: Path) -> None:
    for path in source.iterdir():
        with suppress(FileExistsError):
            (target / path.name).hardlink_to(path)


def make_request(settings: Settings, **changes: Any) -> Request:
    values: dict[str, Any] = {"progress": lambda *_: None, "check": UseCheck(settings=settings), **changes}
    return Request(settings=settings, **values)


def copy_extension(install: Install, name: str, folder: Path, new_name: str) -> Path:
    """Create a folder with an extension of one's own: one of the install under another name."""
    folder.mkdir(parents=True)
    control = (install.extensions / f"{name}.control").read_text().replace(f"$libdir/{name}", f"$libdir/{new_name}")
    (folder / f"{new_name}.control").write_text(control)
    for script in install.extensions.glob(f"{name}--*.sql"):
        (folder / script.name.replace(name, new_name, 1)).write_text(
            script.read_text().replace(f"EXTENSION {name} ", f"EXTENSION {new_name} ")
        )
    subprocess.run(["cp", str(install.libraries / f"{name}.so"), str(folder / f"{new_name}.so")], check=True)
    return folder
