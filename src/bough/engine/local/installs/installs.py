"""Postgres installs on this machine.

A project is pinned to a flavour and a major version, such as `debian-17`; its computes use the newest install of both.

flavour | source                                                              | id
debian  | Debian's packages, unpacked into the cache with their own libraries | debian-17.12-0+deb13u1-1a2b3c4d
wheel   | a Python package, where no mirror of Debian is known                | wheel-17.11
npm     | an npm package: the flavour of Bough's first versions               | embedded-17.10.0-beta.17
system  | the operating system's packages, used in place                      | system-15
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from bough.engine.local.installs import system_version
from bough.engine.local.installs.build_record import RECIPE, BuildRecord

SYSTEM_ROOT = Path("/usr/lib/postgresql")
SYSTEM_SHARE = Path("/usr/share/postgresql")
MAJORS = range(14, 19)
_FOLDER = re.compile(r"(debian|wheel|embedded)-(\d+)\.(\d+)(?!\S*\.making$)\S*")


class Flavour(StrEnum):
    """Where an install comes from; a new project gets the first that is there."""

    DEBIAN = "debian"
    WHEEL = "wheel"
    NPM = "npm"
    SYSTEM = "system"


_FLAVOURS = {"debian": Flavour.DEBIAN, "wheel": Flavour.WHEEL, "embedded": Flavour.NPM}
_ORDER = tuple(Flavour)


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    id: str
    flavour: Flavour
    major: int
    version: str  # such as 17.12
    root: Path  # its folder
    bin: Path  # the folder of its programs
    openssl_conf: Path | None = None  # of an install with its own OpenSSL
    created_at: str = ""  # ISO 8601; orders installs of the same version
    folders: Mapping[str, Path] = field(default_factory=dict)  # variable of the server → folder of an extension
    requested: tuple[str, ...] = ()  # packages that the operator added
    own: tuple[str, ...] = ()  # digests of the operator's own packages
    template: str | None = None  # the install whose template it uses, because initdb creates the same with both
    recipe: int = RECIPE

    @property
    def pin(self) -> str:
        return format_pin(self.flavour, self.major)

    @property
    def template_name(self) -> str:
        return self.template or self.id

    @property
    def is_extended(self) -> bool:
        """Whether the operator added packages, so that it is used only where it is selected."""
        return bool(self.requested or self.own)

    @property
    def is_managed(self) -> bool:
        """Whether the platform created it and applied its policy on extensions."""
        return self.flavour is not Flavour.SYSTEM

    @property
    def environment(self) -> dict[str, str]:
        """Variables that its programs need."""
        paths = {**self.folders, **({} if self.openssl_conf is None else {"OPENSSL_CONF": self.openssl_conf})}
        return {name: str(path) for name, path in paths.items()}

    @property
    def sort_key(self) -> tuple[int, tuple[int, ...], str]:
        """Sorts the installs of a major version: the preferred flavour and the newest version last."""
        return -_ORDER.index(self.flavour), tuple(int(number) for number in self.version.split(".")), self.created_at

    @property
    def libraries(self) -> Path:
        """The folder of extensions' libraries."""
        if self.flavour is Flavour.NPM:
            return self.root / "lib" / "postgresql"
        return self.bin.parent / "lib"

    @property
    def extensions(self) -> Path:
        """The folder of extensions' control files and scripts."""
        share = {
            Flavour.DEBIAN: self.root / "usr" / "share" / "postgresql" / str(self.major),
            Flavour.WHEEL: self.bin.parent / "share",
            Flavour.NPM: self.root / "share" / "postgresql",
            Flavour.SYSTEM: SYSTEM_SHARE / str(self.major),
        }
        return share[self.flavour] / "extension"

    def program_path(self, name: str) -> str:
        return str(self.bin / name)

    def has_library(self, name: str) -> bool:
        return (self.libraries / f"{name}.so").is_file()


def format_pin(flavour: Flavour, major: int) -> str:
    return f"{flavour}-{major}"


def installs_folder(cache: Path) -> Path:
    return cache / "postgres"


def embedded_folder(cache: Path, version: str) -> Path:
    return installs_folder(cache) / f"embedded-{version}"


def find_installs(cache: Path) -> dict[str, Install]:
    """Return every install on this machine, by id."""
    return {install.id: install for install in (*_find_managed(cache), *_find_system())}


def select_preferred(installs: Iterable[Install]) -> dict[int, Install]:
    """Return the install that a new project of each major version gets."""
    return {install.major: install for install in sorted(installs, key=lambda each: each.sort_key)}


def select_newest(installs: Iterable[Install]) -> dict[str, Install]:
    """Return the newest install of each pin, without those to which the operator of some home added packages."""
    default = [each for each in installs if not each.is_extended]
    return {install.pin: install for install in sorted(default, key=lambda each: each.sort_key)}


def list_downloaded(cache: Path) -> set[int]:
    """Return the major versions that a new home can use without a download."""
    return {install.major for install in select_newest(find_installs(cache).values()).values() if install.is_managed}


def read_install(folder: Path) -> Install | None:
    """Return the install in a folder of the cache, or None if it contains no complete one."""
    name = _FOLDER.fullmatch(folder.name)
    if name is None:
        return None
    flavour, major, version = _FLAVOURS[name[1]], int(name[2]), f"{name[2]}.{name[3]}"
    if flavour is Flavour.NPM:
        record: BuildRecord | None = BuildRecord(path=str(folder), bin="bin", created_at="")
    else:
        record = BuildRecord.read(folder)
    if record is None or not (folder / record.bin / "postgres").is_file():
        return None
    return Install(
        id=folder.name,
        flavour=flavour,
        major=major,
        version=version,
        root=folder,
        bin=folder / record.bin,
        openssl_conf=folder / record.openssl_conf if record.openssl_conf else None,
        created_at=record.created_at,
        requested=record.requested,
        own=record.own,
        template=record.template,
        recipe=record.recipe,
        folders={name: folder / path for name, path in record.environment.items()},
    )


def _find_managed(cache: Path) -> Iterator[Install]:
    folder = installs_folder(cache)
    for path in folder.iterdir() if folder.is_dir() else ():
        if install := read_install(path):
            yield install


def _find_system() -> Iterator[Install]:
    for major in MAJORS:
        folder = SYSTEM_ROOT / str(major) / "bin"
        if (folder / "postgres").is_file() and (version := system_version.read_version(folder / "postgres")):
            yield Install(
                id=format_pin(Flavour.SYSTEM, major),
                flavour=Flavour.SYSTEM,
                major=major,
                version=version,
                root=folder.parent,
                bin=folder,
            )
