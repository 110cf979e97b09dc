"""Which install serves each pin in a home: `postgres-builds.json`, the state that the operator wants.

`bough postgres update` and `rollback` write it, and the running platform follows it. Without an entry, a pin is served
by its newest install. An entry may name an install of another flavour: so projects of the npm flavour move to Debian's.
An entry of one project, to which the operator added extensions, replaces that of its pin.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bough.engine.local.durable_files import write_atomically
from bough.engine.local.file_lock import hold_file_lock, try_file_lock
from bough.engine.port import EngineError
from bough.ids import ProjectId

FILE = "postgres-builds.json"
_LOCK = "postgres-builds.lock"
_SEPARATOR = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedInstall:
    current: str  # id
    previous: str | None = None  # id of the one before, for a rollback

    def replaced_by(self, install: str) -> "SelectedInstall":
        return self if install == self.current else SelectedInstall(current=install, previous=self.current)


Selection = Mapping[str, SelectedInstall]  # by pin, or by key of a project


def project_key(pin: str, project: str) -> str:
    return f"{pin}{_SEPARATOR}{project}"


def split_key(key: str) -> tuple[str, ProjectId | None]:
    """Return the pin, and the project of an entry of one project."""
    pin, _, project = key.partition(_SEPARATOR)
    return pin, ProjectId(project) if project else None


@contextmanager
def hold(home: Path) -> Iterator[None]:
    """Keep other commands from changing the selection during the block."""
    if not home.is_dir():
        raise EngineError(f"There is no home in {home}: create it with `bough up`.", transient=False)
    with hold_file_lock(home / _LOCK):
        yield


def add_missing(home: Path, found: Selection) -> bool:
    """Add entries for pins that have none. Return False if there are none, or while a command changes the selection."""
    if not home.is_dir() or found.keys() <= read(home).keys():
        return False
    with try_file_lock(home / _LOCK) as is_held:
        if is_held:
            write(home, {**found, **read(home)})
        return is_held


def read(home: Path) -> dict[str, SelectedInstall]:
    try:
        fields = json.loads((home / FILE).read_text())
        return {pin: SelectedInstall(**entry) for pin, entry in fields.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write(home: Path, selection: Selection) -> None:
    fields = {pin: asdict(entry) for pin, entry in sorted(selection.items())}
    write_atomically(home / FILE, json.dumps(fields, indent=1) + "\n", mode=0o600, durable=True)


def read_version(home: Path) -> int:
    """Return a number that changes with every write."""
    try:
        return (home / FILE).stat().st_mtime_ns
    except OSError:
        return 0
