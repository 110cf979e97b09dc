"""The Postgres installs that are available on this machine."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from bough.engine.local.installs import installs
from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError


class InstallCatalog:
    """Empty until the first `refresh`."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._installs: dict[str, Install] = {}

    async def refresh(self) -> None:
        self._installs = await asyncio.to_thread(installs.find_installs, self._cache)

    def select_preferred(self) -> dict[int, Install]:
        """Return the install that a new project of each major version gets."""
        return dict(sorted(installs.select_preferred(self._installs.values()).items()))

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
        """Return the newest install of a pin. Refresh first if there is none: it may have been downloaded since."""
        found = installs.select_newest(self._installs.values()).get(pin)
        if found is None:
            await self.refresh()
            found = installs.select_newest(self._installs.values()).get(pin)
        if found is None:
            raise EngineError(
                f"The project needs the Postgres build {pin}, which is not on this machine.", transient=False
            )
        return found
