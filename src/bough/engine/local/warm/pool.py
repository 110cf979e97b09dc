"""The warm pool: spare computes that run already, so that a new project waits for none.

A project that fits takes one with its user and its volume; a request of another shape is cloned
cold. The pool is refilled one at a time, when the engine has nothing better to do, within its share
of the machine's memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bough import log
from bough.engine.local.installs.installs import Install
from bough.engine.local.warm.spares import SpareComputes
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec

_LOOK = 0.05  # seconds between looks whether the engine is busy
_LOOKS = 100  # then a spare is made all the same
_ERROR_PAUSE = 5.0  # seconds
_NO_MEMORY_PAUSE = 10.0  # seconds
_SPARE_BYTES = 48 * 1024**2  # what a spare with its buffers takes at most

logger = log.get_logger(component="engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareConfig:
    """What every spare is: a request that differs does not fit."""

    install: Install
    settings: Mapping[str, str]
    cu: float


class WarmPool:
    """`busy` tells whether somebody waits for the engine, `check` raises when nothing new may be made."""

    def __init__(
        self,
        spares: SpareComputes,
        *,
        size: int,
        memory_share: float,
        is_engine_busy: Callable[[], bool],
        check_capacity: Callable[[], None],
    ) -> None:
        self._spares = spares
        self._size = size
        self._memory_share = memory_share
        self._is_engine_busy = is_engine_busy
        self._check_capacity = check_capacity
        self._config: SpareConfig | None = None
        self._ready: deque[str] = deque()
        self._missing = asyncio.Event()
        self._refill_task: asyncio.Task[None] | None = None

    async def start(self, config: SpareConfig) -> None:
        """Adopt the spares that still fit, sweep the others, and begin to refill."""
        self._config = config
        for name in await self._spares.list_existing():
            if await self._spares.is_assigned(name):
                continue
            if len(self._ready) < self._size and await self._fits(name, config):
                self._ready.append(name)
            else:
                await self._spares.remove(name)
        if self._size:
            self._missing.set()
            self._refill_task = asyncio.create_task(self._keep_full(config))

    async def close(self) -> None:
        """No more are made; those that run go on."""
        if self._refill_task is not None:
            self._refill_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._refill_task
            self._refill_task = None

    async def is_assigned(self, name: str) -> bool:
        """Whether a spare is a branch's by now, and only waits for its endpoint."""
        return await self._spares.is_assigned(name)

    async def assign(self, spec: BranchSpec) -> bool:
        """The branch has a spare's volume, whose compute runs; False when none fits."""
        shape = self._config
        if shape is None or spec.parent is not None:
            return False
        if spec.install != shape.install.id or spec.settings != shape.settings:
            return False
        while self._ready:
            name = self._ready.popleft()
            self._missing.set()
            if await self._spares.is_running(name):
                await self._spares.assign(name, spec)
                return True
            await self._spares.remove(name)
        return False

    async def _fits(self, name: str, shape: SpareConfig) -> bool:
        try:
            return await self._spares.is_usable(name, shape.install, shape.settings, shape.cu)
        except (EngineError, OSError):  # whatever is wrong with it, another is soon made
            return False

    async def _keep_full(self, shape: SpareConfig) -> None:
        while True:
            await self._missing.wait()
            if len(self._ready) >= self._size:
                self._missing.clear()
                continue
            if not self._has_memory():
                await asyncio.sleep(_NO_MEMORY_PAUSE)
                continue
            await self._until_quiet()
            await self._add_one(shape)

    async def _add_one(self, shape: SpareConfig) -> None:
        try:
            await asyncio.to_thread(self._check_capacity)
            self._ready.append(await self._spares.create(shape.install, shape.settings, shape.cu))
        except (EngineError, OSError) as error:
            logger.warning("warm_pool_not_filled", error=str(error))
            await asyncio.sleep(_ERROR_PAUSE)

    async def _until_quiet(self) -> None:
        for _ in range(_LOOKS):
            if not self._is_engine_busy():
                return
            await asyncio.sleep(_LOOK)

    def _has_memory(self) -> bool:
        """The pool stays within its share of the machine, and leaves as much to others."""
        memory = _memory()
        share = memory["MemTotal"] * self._memory_share
        return (len(self._ready) + 1) * _SPARE_BYTES <= share <= memory["MemAvailable"]


def _memory() -> dict[str, int]:
    """Bytes, by the kernel's names."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}
