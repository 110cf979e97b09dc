"""The extensions that an install contains, read from their control files and scripts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bough.engine.local.installs.installs import Install
from bough.postgres import preload_libraries
from bough.postgres.extensions import catalog, contrib, extension_control, extension_files
from bough.postgres.extensions.extension_control import ExtensionControl

_MAX_EXTENSIONS = 1000
_MAX_CONTROL_BYTES = 64 * 1024
_PRELOADED = frozenset(["pg_stat_statements"])  # of those that come with Postgres


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledExtension:
    name: str
    control: ExtensionControl
    versions: frozenset[str]  # that its scripts create or lead to

    @property
    def is_default(self) -> bool:
        """Whether it is in every build, so that the operator did not add it."""
        entry = catalog.find(self.name)
        return self.name in contrib.TRUSTED | contrib.SUPERUSER_ONLY if entry is None else entry.is_in_default_build

    @property
    def summary(self) -> str:
        entry = catalog.find(self.name)
        return self.control.comment if entry is None else entry.summary

    @property
    def preload_library(self) -> str | None:
        """The library without which it cannot be created or does nothing."""
        entry = catalog.find(self.name)
        if entry is None:
            return self.name if self.name in _PRELOADED else None
        return entry.preload_library


def read(install: Install) -> Mapping[str, InstalledExtension]:
    """Return the extensions by name. Blocks; the result is kept until the folder changes."""
    try:
        changed_at = install.extensions.stat().st_mtime_ns
    except OSError:
        return {}
    return _read(install.extensions, changed_at)


def list_preloadable(install: Install) -> list[str]:
    """Return the libraries of the catalog that the install contains. Blocks."""
    return [name for name in preload_libraries.list_known(install.major) if install.has_library(name)]


@lru_cache(maxsize=64)
def _read(folder: Path, _changed_at: int) -> Mapping[str, InstalledExtension]:
    names = sorted(path.name for path in folder.iterdir())
    controls = [name.removesuffix(".control") for name in names if name.endswith(".control")]
    versions: dict[str, set[str]] = {}
    for name in names:
        extension, _, rest = name.removesuffix(".sql").partition("--")
        if rest and name.endswith(".sql"):
            versions.setdefault(extension, set()).add(rest.rpartition("--")[2])
    texts = {name: _read_start(folder / f"{name}.control") for name in controls[:_MAX_EXTENSIONS] if "--" not in name}
    return {
        name: InstalledExtension(
            name=name, control=extension_control.parse(text), versions=frozenset(versions.get(name, ()))
        )
        for name, text in texts.items()
        if extension_files.is_available(text)
    }


def _read_start(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_CONTROL_BYTES).decode(errors="replace")
