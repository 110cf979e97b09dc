"""Logs of endpoints that are gone for good are removed, a day after their last line."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

from bough import clock, log_rotation
from bough.config import Settings
from bough.engine.port import EngineInspection
from bough.ids import EndpointId
from bough.store.store import Store

LOG_RETENTION = timedelta(days=1)  # whoever asks why a project went wrong may have deleted it already
LOG_BATCH_SIZE = 500


class DeleteEndpointLogs:
    interval = 3600.0

    def __init__(self, settings: Settings, store: Store, engine: EngineInspection) -> None:
        self._folder = settings.compute_logs
        self._store = store
        self._engine = engine

    async def run(self) -> str:
        silent = await asyncio.to_thread(lambda: list(self._silent()))
        gone = await self._gone(silent)
        await asyncio.to_thread(self._remove, gone)
        return f"removed the logs of {len(gone)} endpoints that are gone" if gone else ""

    def _silent(self) -> Iterator[EndpointId]:
        """Endpoints whose log had no new line for a day; most of them only sleep."""
        before = (clock.now() - LOG_RETENTION).timestamp()
        for path in self._folder.glob("*.log"):
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < before:
                    yield EndpointId(path.stem)

    async def _gone(self, endpoints: list[EndpointId]) -> set[EndpointId]:
        seen = await self._engine.observe()
        known: set[EndpointId] = set()
        async with self._store.read() as rows:
            for first in range(0, len(endpoints), LOG_BATCH_SIZE):
                known |= await rows.endpoints.filter_existing(endpoints[first : first + LOG_BATCH_SIZE])
        return set(endpoints) - known - seen.running_endpoints - seen.spare_endpoints

    def _remove(self, gone: set[EndpointId]) -> None:
        for endpoint in gone:
            log_rotation.remove_log(self._folder / f"{endpoint}.log")
