"""The Postgres installs on this machine, and which of them a home uses."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bough.engine.local.installs import installs, selection
from bough.engine.local.installs.installs import Install
from bough.engine.local.installs.selection import SelectedInstall
from bough.engine.port import EngineError


class InstallCatalog:
    """Empty until the first `refresh`."""

    def __init__(self, cache: Path, home: Path) -> None:
        self._cache = cache
        self._home = home
        self._installs: dict[str, Install] = {}
        self._selection: dict[str, SelectedInstall] = {}
        self._selection_version = 0
        self._set_aside: dict[str, str] = {}  # installs that cannot be used, and why

    async def refresh(self) -> None:
        await asyncio.to_thread(self._refresh)

    def has_new_selection(self) -> bool:
        return selection.read_version(self._home) != self._selection_version

    @property
    def selection(self) -> Mapping[str, SelectedInstall]:
        return self._selection

    def set_aside(self, install_id: str, reason: str) -> bool:
        """Let the previous install serve where this one is selected, until another one is. Return False if none can."""
        entries = [each for each in self._selection.values() if each.current == install_id]
        if not any(each.previous in self._installs for each in entries):
            return False
        self._set_aside[install_id] = reason
        return True

    def explain_set_aside(self, pin: str) -> str | None:
        """Return why the install that is selected for a pin cannot be used."""
        entry = self._selection.get(pin)
        return self._set_aside.get(entry.current) if entry else None

    def find(self, install_id: str | None) -> Install | None:
        return None if install_id is None else self._installs.get(install_id)

    def list_serving(self) -> dict[str, Install]:
        """Return the install that serves each pin."""
        return {
            **installs.select_newest(self._installs.values()),
            **{key: install for key, install in self._list_selected() if selection.split_key(key)[1] is None},
        }

    def list_project_installs(self) -> dict[str, Install]:
        """Return the installs of projects that have one of their own, by key of the project."""
        return {key: install for key, install in self._list_selected() if selection.split_key(key)[1] is not None}

    def find_serving(self, pin: str, project: str | None = None) -> Install | None:
        """Return the install of a project, or of its pin."""
        entry = self._selection.get(selection.project_key(pin, project)) if project else None
        own = None if entry is None else self._find_usable(entry)
        return own or self.list_serving().get(pin)

    def select_preferred(self) -> dict[int, Install]:
        """Return, for each major version, the install of the pin that a new project gets."""
        return dict(sorted(installs.select_preferred(self._list_own()).items()))

    def require_majors(self, majors: Iterable[int]) -> list[Install]:
        available = self.select_preferred()
        required = list(majors)
        for major in required:
            if major not in available:
                raise EngineError(
                    f"Postgres {major} is not on this machine: start with `bough up`, which downloads it.",
                    transient=False,
                )
        return [available[major] for major in required]

    async def require_install(self, pin: str, project: str | None = None) -> Install:
        """Return the install that serves a project. Refresh first if there is none: it may have been downloaded."""
        found = self.find_serving(pin, project)
        if found is None:
            await self.refresh()
            found = self.find_serving(pin, project)
        if found is None:
            raise EngineError(
                f"The project needs the Postgres build {pin}, which is not on this machine: run "
                "`bough postgres update`.",
                transient=False,
            )
        return found

    def _list_own(self) -> list[Install]:
        """List the installs that serve pins of their own flavour."""
        return [install for pin, install in self.list_serving().items() if install.pin == pin]

    def _list_selected(self) -> Iterator[tuple[str, Install]]:
        """Yield the selected installs that exist."""
        for key, entry in self._selection.items():
            if install := self._find_usable(entry):
                yield key, install

    def _find_usable(self, entry: SelectedInstall) -> Install | None:
        is_set_aside = entry.current in self._set_aside and entry.previous in self._installs
        return self._installs.get((entry.previous if is_set_aside else None) or entry.current)

    def _refresh(self) -> None:
        version = selection.read_version(self._home)
        if version != self._selection_version:
            self._set_aside = {}
        self._selection_version = version
        self._selection = selection.read(self._home)
        self._installs = installs.find_installs(self._cache)
        # From now on, an install that another home adds to the cache does not change what this home uses.
        newest = installs.select_newest(self._installs.values())
        if selection.add_missing(self._home, {pin: SelectedInstall(current=each.id) for pin, each in newest.items()}):
            self._refresh()
