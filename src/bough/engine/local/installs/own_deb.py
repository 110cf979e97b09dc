"""Read an extension of the operator's own from a Debian package."""

import os
import re
import shutil
from pathlib import Path
from typing import BinaryIO

from bough.engine.local.debian import architecture as architectures
from bough.engine.local.debian import deb_file
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.installs import own_files
from bough.engine.local.installs.own_files import GivenPackage

_MAX_DEB_BYTES = 256 * 1024**2
_MAX_UNPACKED_BYTES = 1024**3
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,200}")
_KEPT = re.compile(r"usr/(share/postgresql/\d{1,3}/extension|lib/postgresql/\d{1,3}/lib)/(?!bitcode/).*")


def read(path: Path, target: Path) -> GivenPackage:
    """Unpack the files of the package's extensions into the target. Everything else in it is left out."""
    with _open(path) as file:
        control = deb_file.read_control(file)
        name = control.get("Package", "")
        if not _NAME.fullmatch(name):
            raise PackageError(f"{path} is a package without a valid name.")
        _check_architecture(name, control.get("Architecture", ""))
        staged = target / "unpacked"
        staged.mkdir()
        deb_file.unpack(file, staged, _is_kept, max_bytes=_MAX_UNPACKED_BYTES)
    majors = _arrange(staged, target)
    shutil.rmtree(staged)
    own_files.check_files(target)
    extensions = own_files.list_extensions(target)
    if not extensions:
        raise PackageError(f"The package {name} contains no extension of Postgres.")
    own_files.check_majors(majors)
    _check_libraries(target)
    return GivenPackage(
        name=name,
        version=control.get("Version", ""),
        depends=control.get("Depends", ""),
        digest=own_files.compute_digest(target),
        extensions=extensions,
        majors=tuple(sorted(majors)),
    )


def _open(path: Path) -> BinaryIO:
    if not path.is_file():
        raise PackageError(f"There is neither a package nor a folder {path}.")
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if os.fstat(file.fileno()).st_size > _MAX_DEB_BYTES:
        file.close()
        raise PackageError(f"{path} is larger than {_MAX_DEB_BYTES // 1024**2} MB.")
    return file


def _is_kept(path: str) -> bool:
    return _KEPT.fullmatch(path) is not None


def _check_architecture(name: str, architecture: str) -> None:
    own = architectures.find_architecture().name
    if architecture not in (own, "all"):
        raise PackageError(f"The package {name} was built for {architecture or 'no architecture'}, not for {own}.")


def _arrange(staged: Path, target: Path) -> set[int]:
    """Move the folders of each major version to where they are kept. Return the versions."""
    majors = set()
    for folder in sorted(staged.glob("usr/*/postgresql/*/*")):
        major = folder.parent.name
        majors.add(int(major))
        (target / major).mkdir(exist_ok=True)
        folder.rename(target / major / folder.name)
    return majors


def _check_libraries(target: Path) -> None:
    for path in sorted(target.glob("*/lib/*.so")):
        major = own_files.check_library(path)
        if major is not None and str(major) != path.parent.parent.name:
            raise PackageError(f"{path.name} was built for Postgres {major}, not {path.parent.parent.name}.")
