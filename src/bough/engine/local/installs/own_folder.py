"""Read an extension of the operator's own from a folder with `*.control`, `*.sql` and `*.so` files."""

import os
import shutil
from pathlib import Path
from typing import BinaryIO

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.installs import own_files
from bough.engine.local.installs.own_files import ANY_MAJOR, GivenPackage

_PLACES = {".control": "extension", ".sql": "extension", ".so": "lib"}


def read(folder: Path, target: Path) -> GivenPackage:
    """Copy what the folder contains into the target. Other files and subfolders are left out."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in _PLACES)
    if len(paths) > own_files.MAX_FILES:
        raise PackageError(f"{folder} contains more than {own_files.MAX_FILES} files.")
    collected = target / ANY_MAJOR
    for path in paths:
        place = collected / _PLACES[path.suffix]
        place.mkdir(parents=True, exist_ok=True)
        _copy(path, place / path.name)
    extensions = own_files.list_extensions(target)
    if not extensions:
        raise PackageError(f"{folder} contains no control file of an extension, such as my_extension.control.")
    majors = _find_majors(collected)
    if majors:
        collected.rename(target / str(majors[0]))
    return GivenPackage(
        name=extensions[0],
        version="",
        depends="",
        digest=own_files.compute_digest(target),
        extensions=extensions,
        majors=majors,
    )


def _find_majors(collected: Path) -> tuple[int, ...]:
    libraries = sorted((collected / "lib").glob("*.so"))
    found = {major for path in libraries if (major := own_files.check_library(path)) is not None}
    if libraries and not found:
        raise PackageError(f"{libraries[0].name} is not a library for Postgres 15 or later.")
    if len(found) > 1:
        raise PackageError(f"Its libraries were built for different versions of Postgres: {sorted(found)}.")
    own_files.check_majors(found)
    return tuple(found)


def _copy(path: Path, target: Path) -> None:
    """Copy a regular file. A link is refused: what it points to is not part of the folder."""
    with _open(path) as source:
        if os.fstat(source.fileno()).st_size > own_files.MAX_FILE_BYTES:
            raise PackageError(f"{path.name} is larger than {own_files.MAX_FILE_BYTES // 1024**2} MB.")
        with target.open("xb") as file:
            shutil.copyfileobj(source, file)
    target.chmod(0o644)


def _open(path: Path) -> BinaryIO:
    if path.is_symlink() or not path.is_file():
        raise PackageError(f"{path.name} is not a regular file.")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(descriptor, "rb")
