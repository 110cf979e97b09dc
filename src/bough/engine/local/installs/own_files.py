"""The files of an extension of the operator's own, checked before they are used.

They are kept as `MAJOR/extension` and `MAJOR/lib`, or below `any` if there is no library.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.debian import architecture as architectures
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.installs import debian_packages
from bough.postgres.extensions import library_file

ANY_MAJOR = "any"
MAX_FILE_BYTES = 256 * 1024**2
MAX_FILES = 20_000
_MAX_CONTROL_BYTES = 64 * 1024
_CONTROL = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_-]*)\.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPackage:
    name: str
    version: str
    depends: str
    digest: str
    extensions: tuple[str, ...]
    majors: tuple[int, ...]


def list_extensions(files: Path) -> tuple[str, ...]:
    """Return the names of the extensions, which control files define."""
    found = set()
    for path in sorted(files.glob("*/extension/*.control")):
        name = _CONTROL.fullmatch(path.name)
        if name is None or path.is_symlink() or path.stat().st_size > _MAX_CONTROL_BYTES:
            raise PackageError(f"The control file {path.name!r} is not one of an extension.")
        found.add(name[1])
    return tuple(sorted(found))


def check_files(files: Path) -> None:
    """Allow only regular files, and links to another file in the same folder."""
    for number, path in enumerate(_walk(files)):
        if number >= MAX_FILES:
            raise PackageError(f"It contains more than {MAX_FILES} files.")
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            target = path.parent / path.readlink()
            if target.parent != path.parent or target.is_symlink() or not target.is_file():
                raise PackageError(f"It contains the unsafe link {path.name}.")
        elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise PackageError(f"It contains the special file {path.name}.")


def check_library(path: Path) -> int | None:
    """Check that a library runs on this machine. Return the major version of Postgres that it was built for."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise PackageError(f"The library {path.name} is larger than {MAX_FILE_BYTES // 1024**2} MB.")
    content = path.read_bytes()
    architecture = architectures.find_architecture().name
    if library_file.find_machine(content) != library_file.ELF_MACHINES[architecture]:
        raise PackageError(f"{path.name} is not a shared library for this machine ({architecture}).")
    return library_file.find_major(content)


def check_majors(majors: set[int]) -> None:
    unknown = sorted(majors - debian_packages.RELEASES.keys())
    if unknown:
        supported = ", ".join(map(str, debian_packages.RELEASES))
        raise PackageError(
            f"It was built for Postgres {', '.join(map(str, unknown))}; extensions can be added to {supported}."
        )


def compute_digest(files: Path) -> str:
    """Return a digest of the names and the content of all files."""
    total = hashlib.sha256()
    for path in sorted(_walk(files)):
        total.update(f"{path.relative_to(files)}\0".encode("utf-8", "surrogateescape"))
        if path.is_symlink():
            total.update(os.fsencode(path.readlink()))
        elif path.is_file():
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    """Yield everything in the folder, without following links."""
    for parent, folders, names in os.walk(folder):
        for name in sorted([*folders, *names]):
            yield Path(parent, name)
