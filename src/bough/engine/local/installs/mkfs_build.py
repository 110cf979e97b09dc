"""Get `mkfs.xfs` from Debian's packages, for a machine without it: unpacked into the cache with its own libraries."""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bough.engine.local.debian import closure, indexes
from bough.engine.local.debian.architecture import Architecture, find_architecture
from bough.engine.local.debian.errors import FileMissing, PackageError
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.debian.package_index import PackageIndex
from bough.engine.local.installs import (
    debian_build,
    debian_packages,
    debian_tree,
    download,
    locks,
    package_cache,
    staging,
)
from bough.engine.local.installs.locks import LockedPackage
from bough.engine.local.progress import Progress
from bough.engine.port import EngineError

LOCK = "xfsprogs"
RELEASE = debian_packages.RELEASES[17]
_PACKAGE = "xfsprogs"
# Libraries of programs other than mkfs.xfs.
_OMITTED = frozenset(
    ["debconf", "dmsetup", "libdevmapper1.02.1", "libedit2", "libgcc-s1", "libicu76", "python3", "python3-dbus"]
)
_PROGRAM = "usr/sbin/mkfs.xfs"
_FOLDER = "tools"  # in the cache
_TIMEOUT_SECONDS = 30


def resolve(index: PackageIndex) -> tuple[LockedPackage, ...]:
    return locks.from_packages(closure.resolve(index, [_PACKAGE], _OMITTED))


def fetch(cache: Path, mirror_setting: str, progress: Progress) -> Path:
    """Return the path of the program. Download and unpack it if the cache does not contain it."""
    architecture = find_architecture()
    locked = locks.read(LOCK, architecture.name)
    if found := _find(cache, locked):
        return found
    with Mirrors.open(mirror_setting) as mirrors:
        if mirrors is None:
            raise EngineError(download.NO_MIRROR, transient=False)
        try:
            return _build(locked, mirrors, cache, progress)
        except FileMissing:  # a newer version replaced it
            index = indexes.read_index(mirrors, list(indexes.list_suites(RELEASE)), architecture, progress)
            newest = resolve(index)
            locks.check_not_older(newest, {each.name: each.version for each in locked})
            return _build(newest, mirrors, cache, progress)


def _find(cache: Path, packages: Sequence[LockedPackage]) -> Path | None:
    program = _folder(cache, packages) / _PROGRAM
    return program if program.is_file() and _find_problem(program) is None else None


def _build(packages: Sequence[LockedPackage], mirrors: Mirrors, cache: Path, progress: Progress) -> Path:
    with staging.hold_cache(cache):
        folder = _folder(cache, packages)
        if found := _find(cache, packages):
            return found
        staging.create_public_folder(folder.parent)
        downloads = cache / debian_build.DOWNLOADS
        files = package_cache.download(mirrors, packages, downloads, "downloading mkfs.xfs", progress)
        with staging.stage_install(folder) as staged:
            _create(files, staged / "tree", folder, find_architecture(), progress)
        for file in files:
            file.unlink(missing_ok=True)
        if problem := _find_problem(folder / _PROGRAM):
            shutil.rmtree(folder)
            raise PackageError(f"Debian's mkfs.xfs does not run here: {problem}.")
        return folder / _PROGRAM


def _create(files: Sequence[Path], tree: Path, final: Path, architecture: Architecture, progress: Progress) -> None:
    libraries = f"usr/lib/{architecture.triplet}"
    debian_tree.unpack_packages(
        files,
        tree,
        lambda path: path == _PROGRAM or str(Path(path).parent) == libraries,
        "unpacking mkfs.xfs",
        progress,
    )
    debian_tree.set_linker([tree / _PROGRAM], f"$ORIGIN/../lib/{architecture.triplet}", final, architecture)


def _find_problem(program: Path) -> str | None:
    """Return why the program does not run, for example because the cache was moved."""
    try:
        result = subprocess.run([program, "-V"], capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if result.returncode == 0 else f"it exits with {result.returncode}"


def _folder(cache: Path, packages: Sequence[LockedPackage]) -> Path:
    content = "\n".join(f"{each.name} {each.version}" for each in packages)
    return cache / _FOLDER / f"{_PACKAGE}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
