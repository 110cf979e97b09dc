"""Build a Postgres install from the files of Debian packages.

The tree contains the C library and the dynamic linker that its programs were built for, so it runs on any Linux. The
programs name the dynamic linker by its absolute path: `adapt` must run again when the tree is moved.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from bough.engine.local.debian import deb_file
from bough.engine.local.debian.architecture import Architecture, find_architecture
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.installs import openssl_conf, unused_libraries
from bough.engine.local.progress import Progress

_KEPT = ("usr/lib/", "usr/share/postgresql/", "usr/share/proj/", "usr/share/gdal/")
_CHANGELOG = re.compile(r"usr/share/doc/postgresql-\d+/changelog\.Debian\.gz")
_REMOVED = ("bitcode", "pgxs", "pkgconfig", "llvmjit.so", "llvmjit_types.bc", "llvmjit.bc")
_REMOVED_BELOW_USR = (
    "lib/systemd",
    "lib/tmpfiles.d",
    "lib/sysusers.d",
    "lib/init",
    "lib/locale",
    "lib/python3",
    "share/postgresql/{major}/man",
)
_PATCH_TIMEOUT_SECONDS = 60


def unpack(files: Sequence[Path], tree: Path, major: int, progress: Progress) -> None:
    """Unpack the packages, possibly over those of an install, and remove what a server does not need."""
    unpack_packages(files, tree, _is_kept, f"unpacking Postgres {major}", progress)
    _remove_unneeded(tree, major)


def unpack_packages(
    files: Sequence[Path], tree: Path, is_kept: Callable[[str], bool], stage: str, progress: Progress
) -> None:
    """Unpack the files whose path, such as `usr/lib/…`, is to be kept. Create the tree if it does not exist."""
    progress(stage, 0, len(files))
    if not tree.exists():
        tree.mkdir(mode=0o755)
        tree.chmod(0o755)
        (tree / "usr").mkdir()
        (tree / "usr").chmod(0o755)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decompression runs in parallel
        for number, _ in enumerate(pool.map(lambda file: _unpack_one(file, tree, is_kept), files), 1):
            progress(stage, number, len(files))


def program_folder(tree: Path, major: int) -> Path:
    return tree / "usr" / "lib" / "postgresql" / str(major) / "bin"


def extension_folder(tree: Path, major: int) -> Path:
    return tree / "usr" / "share" / "postgresql" / str(major) / "extension"


def library_folder(tree: Path, major: int) -> Path:
    return tree / "usr" / "lib" / "postgresql" / str(major) / "lib"


def adapt(tree: Path, final: Path, major: int) -> None:
    """Let the programs use the dynamic linker, the libraries and the OpenSSL of the tree at its final path."""
    architecture = find_architecture()
    programs = [path for path in program_folder(tree, major).iterdir() if _is_dynamic_program(path)]
    set_linker(programs, f"$ORIGIN/../../../{architecture.triplet}", final, architecture)
    server = program_folder(tree, major) / "postgres"
    unused_libraries.detach(server, lambda library: run_patchelf("--remove-needed", library, str(server)))
    openssl_conf.write(tree, final, architecture.triplet)


def set_linker(programs: Sequence[Path], run_path: str, final: Path, architecture: Architecture) -> None:
    """Replace the programs, which may be hard links to those of another cache, or belong to running servers."""
    linker = final / "usr" / "lib" / architecture.triplet / architecture.dynamic_linker
    copies = [path.with_name(f".{path.name}.new") for path in programs]
    for program, copy in zip(programs, copies, strict=True):
        shutil.copy2(program, copy)
    options = ["--set-interpreter", str(linker), "--force-rpath", "--set-rpath", run_path]
    run_patchelf(*options, *map(str, copies))
    for program, copy in zip(programs, copies, strict=True):
        copy.rename(program)


def run_patchelf(*arguments: str) -> None:
    command = [str(_find_patchelf()), *arguments]
    options: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace"}
    result = subprocess.run(command, timeout=_PATCH_TIMEOUT_SECONDS, check=False, **options)
    if result.returncode != 0:
        raise PackageError(
            f"The programs of Debian's packages could not be adapted to this machine: {result.stderr.strip()}"
        )


def _find_patchelf() -> Path:
    """Return the program of the Python package `patchelf`, which need not be in PATH."""
    distribution = metadata.distribution("patchelf")
    names = [file for file in distribution.files or () if file.name == "patchelf"]
    if not names:
        raise PackageError("The Python package patchelf is incomplete: install the requirements again.")
    return Path(str(distribution.locate_file(names[0]))).resolve()


def _unpack_one(file: Path, tree: Path, is_kept: Callable[[str], bool]) -> None:
    with file.open("rb") as package:
        deb_file.unpack(package, tree, is_kept)


def _is_kept(path: str) -> bool:
    if _CHANGELOG.fullmatch(path):
        return True
    return path.startswith(_KEPT) and not any(part in _REMOVED for part in path.split("/"))


def _remove_unneeded(tree: Path, major: int) -> None:
    for name in _REMOVED_BELOW_USR:
        shutil.rmtree(tree / "usr" / name.format(major=major), ignore_errors=True)


def _is_dynamic_program(path: Path) -> bool:
    """Return whether it is an ELF file, and not a script."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
