"""Builds of Postgres on this machine.

An install has an id that projects pin: a data folder is never opened by another build. Ours live
in the cache (`embedded-…`); those of the system are used where they are (`system-15`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SYSTEM_ROOT = Path("/usr/lib/postgresql")
MAJORS = range(14, 19)
_EMBEDDED = re.compile(r"embedded-(\d+)\.[0-9.]+(-[a-z]+\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    id: str
    major: int
    bin: Path
    own_copy: bool  # our extensions policy is applied to it

    def program(self, name: str) -> str:
        return str(self.bin / name)

    @property
    def age(self) -> tuple[bool, tuple[int, ...]]:
        """Sorts installs of one major: ours over the system's, newer over older."""
        return self.own_copy, tuple(int(number) for number in re.findall(r"\d+", self.id))


def embedded_folder(cache: Path, version: str) -> Path:
    return cache / "postgres" / f"embedded-{version}"


def found(cache: Path) -> dict[str, Install]:
    """Every install on this machine, by id."""
    return {install.id: install for install in (*_embedded(cache), *_system())}


def preferred(installs: Iterable[Install]) -> dict[int, Install]:
    """The install a new project of each major version gets."""
    return {install.major: install for install in sorted(installs, key=lambda each: each.age)}


def embedded(folder: Path) -> Install | None:
    """The install in a folder of the cache; None when the folder is something else."""
    name = _EMBEDDED.fullmatch(folder.name)
    if name is None or not (folder / "bin" / "postgres").is_file():
        return None
    return Install(id=folder.name, major=int(name[1]), bin=folder / "bin", own_copy=True)


def _embedded(cache: Path) -> list[Install]:
    folders = (cache / "postgres").glob("embedded-*")
    return [install for install in map(embedded, folders) if install is not None]


def _system() -> list[Install]:
    return [
        Install(id=f"system-{major}", major=major, bin=SYSTEM_ROOT / str(major) / "bin", own_copy=False)
        for major in MAJORS
        if (SYSTEM_ROOT / str(major) / "bin" / "postgres").is_file()
    ]
