"""Postgres installs on this machine.

Each project is pinned to the id of an install: no other install opens its data directories. Embedded installs are in
the cache (`embedded-…`); installs of the operating system are used in place (`system-15`).
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
    is_embedded: bool  # downloaded by the platform, with its extension policy applied

    def program_path(self, name: str) -> str:
        return str(self.bin / name)

    @property
    def sort_key(self) -> tuple[bool, tuple[int, ...]]:
        """Sorts the installs of a major version: embedded after system, newer after older."""
        return self.is_embedded, tuple(int(number) for number in re.findall(r"\d+", self.id))


def embedded_folder(cache: Path, version: str) -> Path:
    return cache / "postgres" / f"embedded-{version}"


def find_installs(cache: Path) -> dict[str, Install]:
    """Return every install on this machine, by id."""
    return {install.id: install for install in (*_find_embedded(cache), *_find_system())}


def select_preferred(installs: Iterable[Install]) -> dict[int, Install]:
    """Return the install that a new project of each major version gets."""
    return {install.major: install for install in sorted(installs, key=lambda each: each.sort_key)}


def read_embedded(folder: Path) -> Install | None:
    """Return the install in a folder of the cache, or None if it contains none."""
    name = _EMBEDDED.fullmatch(folder.name)
    if name is None or not (folder / "bin" / "postgres").is_file():
        return None
    return Install(id=folder.name, major=int(name[1]), bin=folder / "bin", is_embedded=True)


def _find_embedded(cache: Path) -> list[Install]:
    folders = (cache / "postgres").glob("embedded-*")
    return [install for install in map(read_embedded, folders) if install is not None]


def _find_system() -> list[Install]:
    return [
        Install(id=f"system-{major}", major=major, bin=SYSTEM_ROOT / str(major) / "bin", is_embedded=False)
        for major in MAJORS
        if (SYSTEM_ROOT / str(major) / "bin" / "postgres").is_file()
    ]
