"""What this machine offers: the installs that are on it, as they come."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from bough.engine.local.installs import installs
from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError


class Offer:
    """Empty until it was looked at."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._installs: dict[str, Install] = {}

    async def look(self) -> None:
        self._installs = await asyncio.to_thread(installs.found, self._cache)

    def preferred(self) -> dict[int, Install]:
        """What a new project of each major version gets."""
        return dict(sorted(installs.preferred(self._installs.values()).items()))

    def of_majors(self, majors: Iterable[int]) -> list[Install]:
        offered = self.preferred()
        wanted = list(majors)
        for major in wanted:
            if major not in offered:
                raise EngineError(
                    f"Postgres {major} is not on this machine: start with `bough up`, which fetches it.",
                    transient=False,
                )
        return [offered[major] for major in wanted]

    async def pinned(self, wanted: str) -> Install:
        """One that is not known may have been fetched since the last look."""
        if wanted not in self._installs:
            await self.look()
        install = self._installs.get(wanted)
        if install is None:
            raise EngineError(
                f"The project needs the Postgres build {wanted}, which is not on this machine.", transient=False
            )
        return install
