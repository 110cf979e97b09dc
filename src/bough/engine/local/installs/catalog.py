"""What this machine offers: the installs that are on it, as they come."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from bough.engine.local.installs import installs
from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError


class InstallCatalog:
    """Empty until it was looked at."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._installs: dict[str, Install] = {}

    async def refresh(self) -> None:
        self._installs = await asyncio.to_thread(installs.find_installs, self._cache)

    def select_preferred(self) -> dict[int, Install]:
        """What a new project of each major version gets."""
        return dict(sorted(installs.select_preferred(self._installs.values()).items()))

    def require_majors(self, majors: Iterable[int]) -> list[Install]:
        offered = self.select_preferred()
        wanted = list(majors)
        for major in wanted:
            if major not in offered:
                raise EngineError(
                    f"Postgres {major} is not on this machine: start with `bough up`, which fetches it.",
                    transient=False,
                )
        return [offered[major] for major in wanted]

    async def require_install(self, install_id: str) -> Install:
        """One that is not known may have been fetched since the last look."""
        if install_id not in self._installs:
            await self.refresh()
        install = self._installs.get(install_id)
        if install is None:
            raise EngineError(
                f"The project needs the Postgres build {install_id}, which is not on this machine.", transient=False
            )
        return install
