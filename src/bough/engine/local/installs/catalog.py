"""The Postgres installs on this machine, and which of them a home uses."""

import asyncio
from collections.abc import Iterable, Mapping
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

    async def refresh(self) -> None:
        await asyncio.to_thread(self._refresh)

    def has_new_selection(self) -> bool:
        return selection.read_version(self._home) != self._selection_version

    @property
    def selection(self) -> Mapping[str, SelectedInstall]:
        return self._selection

    def find(self, install_id: str | None) -> Install | None:
        return None if install_id is None else self._installs.get(install_id)

    def list_serving(self) -> dict[str, Install]:
        """Return the install that serves each pin."""
        return {
            **installs.select_newest(self._installs.values()),
            **{pin: self._installs[entry.current] for pin, entry in self._selection.items() if self._is_usable(entry)},
        }

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

    async def require_install(self, pin: str) -> Install:
        """Return the install that serves a pin. Refresh first if there is none: it may have been downloaded since."""
        found = self.list_serving().get(pin)
        if found is None:
            await self.refresh()
            found = self.list_serving().get(pin)
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

    def _is_usable(self, entry: SelectedInstall) -> bool:
        return entry.current in self._installs

    def _refresh(self) -> None:
        self._selection_version = selection.read_version(self._home)
        self._selection = selection.read(self._home)
        self._installs = installs.find_installs(self._cache)
        # From now on, an install that another home adds to the cache does not change what this home uses.
        newest = installs.select_newest(self._installs.values())
        missing = {pin: SelectedInstall(current=each.id) for pin, each in newest.items() if pin not in self._selection}
        if missing and self._home.is_dir():
            self._selection |= missing
            selection.write(self._home, self._selection)
            self._selection_version = selection.read_version(self._home)
