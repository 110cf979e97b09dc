"""Locks: the exact files of Debian that this version of Bough was released with.

A lock names package, version, size, SHA-256 and the path on a mirror, and no address. While a mirror has these files,
they are downloaded without an index.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import ExpectedFile
from bough.engine.local.debian.package_index import Package
from bough.engine.local.debian.versions import DebianVersion

INSTALL_FILE = "packages.txt"  # the lock in an install: what it was built from
_PACKAGE = "bough.engine.local.installs.generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    name: str
    version: str
    file: ExpectedFile


def file_name(name: str, architecture: str) -> str:
    """Return the file name of a lock, such as that of `postgres-17`."""
    return f"{name}-{architecture}.txt"


@cache
def read(name: str, architecture: str) -> tuple[LockedPackage, ...]:
    """Return the packages of a lock; none if this version has no such lock."""
    file = resources.files(_PACKAGE) / file_name(name, architecture)
    return parse(file.read_text()) if file.is_file() else ()


def parse(text: str) -> tuple[LockedPackage, ...]:
    lines = (line.split() for line in text.splitlines())
    return tuple(
        LockedPackage(name=name, version=version, file=ExpectedFile(path=path, size=int(size), sha256=sha256))
        for name, version, size, sha256, path in lines
    )


def from_packages(packages: Iterable[Package]) -> tuple[LockedPackage, ...]:
    return tuple(LockedPackage(name=each.name, version=each.version, file=each.file) for each in packages)


def format_lock(packages: Iterable[LockedPackage]) -> str:
    return "".join(
        f"{each.name} {each.version} {each.file.size} {each.file.sha256} {each.file.path}\n" for each in packages
    )


def check_not_older(packages: Iterable[LockedPackage], known: Mapping[str, str]) -> None:
    """An index without an expiry date could be an old one with known vulnerabilities. `known` is name → version."""
    for each in packages:
        if each.name in known and DebianVersion(each.version) < DebianVersion(known[each.name]):
            raise PackageError(
                f"The mirror offers {each.name} {each.version}, which is older than {known[each.name]}, so it is "
                "not used. Set debian_mirror to a mirror that is up to date, and try again."
            )
