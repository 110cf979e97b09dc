"""An engine that only keeps history, and remembers what it was asked: for the order of things, not for the data."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

from bough.engine.port import EngineError, Kept
from bough.ids import ProjectId, VolumeId

KEPT = Kept(began_at=None, began_lsn=None, history_bytes=0, waiting_bytes=0)


class HistoryHands:
    def __init__(self) -> None:
        self.asked: list[tuple[VolumeId, datetime]] = []
        self.answers: dict[VolumeId, Kept] = {}
        self.refuses: dict[VolumeId, str] = {}
        self.waits: dict[VolumeId, asyncio.Event] = {}
        self.bases: list[VolumeId] = []
        self.did: list[tuple[str, VolumeId]] = []

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody who keeps history asks for {name}")

    def answer(self, volume: VolumeId, **fields: Any) -> None:
        self.answers[volume] = replace(KEPT, **fields)

    async def keep_history(self, volume: VolumeId, since: datetime, *, bases: bool = True) -> Kept:
        """Bases are what takes long; they are due where one can be waited for."""
        if not bases:
            self.asked.append((volume, since))
            self._refuse(volume)
            return replace(self.answers.get(volume, KEPT), base_is_due=volume in self.waits)
        self.bases.append(volume)
        await self.waits[volume].wait()
        self._refuse(volume)
        return self.answers.get(volume, KEPT)

    async def seen(self, volume: VolumeId, times: int) -> None:
        """It was asked that often about the volume."""
        while [each for each, _ in self.asked].count(volume) < times:  # noqa: ASYNC110 - each look is a beat
            await asyncio.sleep(0.001)

    async def retire(self, _project: ProjectId, volume: VolumeId) -> None:
        self._refuse(volume)
        self.did.append(("retire", volume))

    async def ensure_absent(self, _project: ProjectId, volume: VolumeId) -> None:
        self._refuse(volume)
        self.did.append(("ensure_absent", volume))

    def _refuse(self, volume: VolumeId) -> None:
        if volume in self.refuses:
            raise EngineError(self.refuses[volume])
