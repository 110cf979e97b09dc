"""Unpack the files of a Debian package: an `ar` archive that contains a compressed tar archive.

Packages are unpacked over one another, with the folders of /usr merged: `/lib` and `/bin` are `/usr/lib` and
`/usr/bin`. Only files, folders and links are created, and none outside the target folder.
"""

import gzip
import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from bough.engine.local.debian import ar_file
from bough.engine.local.debian.errors import PackageError

_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links to folders of /usr
_MAX_UNPACKED_BYTES = 4 * 1024**3  # of one package
_MAX_CONTROL_BYTES = 64 * 1024**2
_MAX_FILES = 200_000
_DAMAGE = (tarfile.TarError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError, UnicodeError)
_FOLDER_MODE = 0o755


def unpack(file: BinaryIO, target: Path, is_kept: Callable[[str], bool], max_bytes: int = _MAX_UNPACKED_BYTES) -> None:
    """Unpack the files whose path, such as `usr/lib/…`, is to be kept."""
    try:
        with ar_file.open_tar(file, "data.tar", max_bytes) as data, tarfile.open(fileobj=data, mode="r|") as archive:
            for member in _list_members(archive, max_bytes):
                path = merge_path(member.name)
                if path and is_kept(path):
                    _create(archive, member, path, target)
    except _DAMAGE as error:
        raise PackageError(f"The package is damaged: {error}.") from error


def read_control(file: BinaryIO) -> dict[str, str]:
    """Return the fields of the package's control file, such as `Package` and `Depends`."""
    try:
        with (
            ar_file.open_tar(file, "control.tar", _MAX_CONTROL_BYTES) as data,
            tarfile.open(fileobj=data, mode="r|") as archive,
        ):
            for member in archive:
                content = archive.extractfile(member) if member.name.removeprefix("./") == "control" else None
                if content is not None:
                    return _parse_control(content.read(1024**2).decode(errors="replace"))
    except _DAMAGE as error:
        raise PackageError(f"The package is damaged: {error}.") from error
    raise PackageError("The package has no control file, so it is not a Debian package.")


def _list_members(archive: tarfile.TarFile, max_bytes: int) -> Iterator[tarfile.TarInfo]:
    """Yield the members, and stop before their size exceeds the limit: a sparse file may be larger than the archive."""
    total = 0
    for number, member in enumerate(archive):
        total += member.size
        if total > max_bytes or number >= _MAX_FILES:
            raise PackageError("The package unpacks to more than a package of Debian does, so it is not used.")
        yield member


def merge_path(name: str) -> str:
    """Return the path of a file with the folders of /usr merged; refuse one that leads outside."""
    parts = PurePosixPath(name.lstrip("/")).parts
    if ".." in parts:
        raise PackageError(f"The package contains the unsafe path {name}, so it is not used.")
    return str(PurePosixPath("usr", *parts)) if parts and parts[0] in _MERGED else str(PurePosixPath(*parts))


def _parse_control(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines() if not line.startswith((" ", "\t")))
    return {name: value.strip() for name, separator, value in lines if separator}


def _create(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, target: Path) -> None:
    destination = target / path
    if member.isdir():
        _create_folder(destination, target)
        return
    if not (member.isreg() or member.issym() or member.islnk()):
        raise PackageError(f"The package contains the special file {path}, so it is not used.")
    _create_folder(destination.parent, target)
    destination.unlink(missing_ok=True)
    if member.issym():
        destination.symlink_to(_relative_link(path, member.linkname))
    elif member.islnk():
        source = target / merge_path(member.linkname)
        if source.is_symlink() or not source.is_file() or not source.resolve().is_relative_to(target.resolve()):
            raise PackageError(f"The package contains the unsafe link {path}, so it is not used.")
        os.link(source, destination)
    else:
        _write(archive, member, destination)


def _create_folder(folder: Path, target: Path) -> None:
    """Create missing folders. A folder that is a link could lead outside, so it is not used."""
    for path in [*reversed(folder.relative_to(target).parents), folder.relative_to(target)]:
        each = target / path
        if each.is_symlink():
            raise PackageError(f"The package contains files below the link {path}, so it is not used.")
        if not each.exists():
            each.mkdir(exist_ok=True)  # another package may create it at the same time
            each.chmod(_FOLDER_MODE)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, destination: Path) -> None:
    source = archive.extractfile(member)
    assert source is not None
    with source, destination.open("xb") as file:
        shutil.copyfileobj(source, file, 1024**2)
    destination.chmod(0o755 if member.mode & 0o100 else 0o644)


def _relative_link(path: str, link: str) -> str:
    """Return a link that stays inside the target: absolute ones are meant from its root."""
    folder = PurePosixPath(path).parent
    absolute = PurePosixPath(merge_path(link)) if link.startswith("/") else _normalize(folder / link, path)
    return os.path.relpath(merge_path(str(absolute)), folder)


def _normalize(path: PurePosixPath, link: str) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            if not parts:
                raise PackageError(f"The link {link} of the package leads outside, so it is not used.")
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)
