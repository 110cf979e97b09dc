"""An engine that only maintains history and records its calls, for tests of their order."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

from bough.engine.port import EngineError, HistoryStatus
from bough.ids import ProjectId, VolumeId

EMPTY_HISTORY = HistoryStatus(began_at=None, began_lsn=None, history_bytes=0, waiting_bytes=0)


class FakeHistoryEngine:
    def __init__(self) -> None:
        self.prune_calls: list[tuple[VolumeId, datetime]] = []
        self.results: dict[VolumeId, HistoryStatus] = {}
        self.errors: dict[VolumeId, str] = {}
        self.base_events: dict[VolumeId, asyncio.Event] = {}
        self.base_calls: list[VolumeId] = []
        self.calls: list[tuple[str, VolumeId]] = []

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the tasks of history must not use {name}")

    def set_result(self, volume: VolumeId, **fields: Any) -> None:
        self.results[volume] = replace(EMPTY_HISTORY, **fields)

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        """Blocks until the test sets the event, if a base is taken: only bases take long."""
        if not take_bases:
            self.prune_calls.append((volume, since))
            self._raise_error(volume)
            return replace(self.results.get(volume, EMPTY_HISTORY), is_base_due=volume in self.base_events)
        self.base_calls.append(volume)
        await self.base_events[volume].wait()
        self._raise_error(volume)
        return self.results.get(volume, EMPTY_HISTORY)

    async def wait_until_called(self, volume: VolumeId, times: int) -> None:
        """Wait until retention was applied to the volume that often."""
        while [each for each, _ in self.prune_calls].count(volume) < times:  # noqa: ASYNC110 - polls at each run
            await asyncio.sleep(0.001)

    async def retire_volume(self, _project: ProjectId, volume: VolumeId) -> None:
        self._raise_error(volume)
        self.calls.append(("retire", volume))

    async def ensure_absent(self, _project: ProjectId, volume: VolumeId) -> None:
        self._raise_error(volume)
        self.calls.append(("ensure_absent", volume))

    def _raise_error(self, volume: VolumeId) -> None:
        if volume in self.errors:
            raise EngineError(self.errors[volume])
