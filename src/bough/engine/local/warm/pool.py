"""The warm pool: running spare computes, so that a new project does not wait for a start.

A new project with the configuration of the spares gets one, with its user and its volume; any other request is cloned
from the template. The pool creates one spare at a time, while the engine is idle, within its share of the memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bough import log
from bough.engine.local.installs.installs import Install
from bough.engine.local.warm.spares import SpareComputes, SpareConfig
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec

_IDLE_POLL = 0.05  # seconds between checks whether the engine is busy
_MAX_IDLE_POLLS = 100  # then a spare is created even if the engine is busy
_ERROR_PAUSE = 5.0  # seconds
_NO_MEMORY_PAUSE = 10.0  # seconds
_SPARE_BYTES = 48 * 1024**2  # maximum memory of a spare, with its buffers

logger = log.get_logger(component="engine")


class WarmPool:
    """`check_can_create` raises an EngineError when no new volume may be created."""

    def __init__(
        self,
        spares: SpareComputes,
        *,
        size: int,
        memory_share: float,
        is_engine_busy: Callable[[], bool],
        check_can_create: Callable[[], None],
    ) -> None:
        self._spares = spares
        self._size = size
        self._memory_share = memory_share
        self._is_engine_busy = is_engine_busy
        self._check_can_create = check_can_create
        self._config: SpareConfig | None = None
        self._ready: deque[str] = deque()
        self._needs_refill = asyncio.Event()
        self._refill_task: asyncio.Task[None] | None = None

    async def start(self, config: SpareConfig) -> None:
        """Adopt the spares that match the configuration, remove the others, and start refilling."""
        self._config = config
        self._ready.clear()
        for name in await self._spares.list_existing():
            if await self._spares.is_assigned(name):
                continue
            if len(self._ready) < self._size and await self._is_usable(name, config):
                self._ready.append(name)
            else:
                await self._spares.remove(name)
        if self._size:
            self._needs_refill.set()
            self._refill_task = asyncio.create_task(self._refill(config))

    async def close(self) -> None:
        """Stop refilling. Spares keep running."""
        if self._refill_task is not None:
            self._refill_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._refill_task
            self._refill_task = None

    async def is_assigned(self, name: str) -> bool:
        """Return whether the spare already belongs to a branch and waits for its endpoint."""
        return await self._spares.is_assigned(name)

    async def assign(self, spec: BranchSpec, install: Install) -> bool:
        """Give the branch the volume of a running spare. Return False when none matches."""
        config = self._config
        if config is None or spec.source_volume_id is not None:
            return False
        if spec.install != config.install.pin or install.id != config.install.id or spec.settings != config.settings:
            return False
        while self._ready:
            name = self._ready.popleft()
            self._needs_refill.set()
            if await self._spares.is_running(name):
                await self._spares.assign(name, spec)
                return True
            await self._spares.remove(name)
        return False

    async def _is_usable(self, name: str, config: SpareConfig) -> bool:
        try:
            return await self._spares.is_usable(name, config)
        except (EngineError, OSError):  # a damaged spare is replaced
            return False

    async def _refill(self, config: SpareConfig) -> None:
        while True:
            await self._needs_refill.wait()
            if len(self._ready) >= self._size:
                self._needs_refill.clear()
                continue
            if not self._has_memory():
                await asyncio.sleep(_NO_MEMORY_PAUSE)
                continue
            await self._wait_until_idle()
            await self._add_spare(config)

    async def _add_spare(self, config: SpareConfig) -> None:
        try:
            await asyncio.to_thread(self._check_can_create)
            self._ready.append(await self._spares.create(config))
        except (EngineError, OSError) as error:
            logger.warning("warm_pool_not_filled", error=str(error))
            await asyncio.sleep(_ERROR_PAUSE)

    async def _wait_until_idle(self) -> None:
        for _ in range(_MAX_IDLE_POLLS):
            if not self._is_engine_busy():
                return
            await asyncio.sleep(_IDLE_POLL)

    def _has_memory(self) -> bool:
        """Keep the pool within its share of the memory, and as much memory available for others."""
        memory = _read_meminfo()
        share = memory["MemTotal"] * self._memory_share
        return (len(self._ready) + 1) * _SPARE_BYTES <= share <= memory["MemAvailable"]


def _read_meminfo() -> dict[str, int]:
    """Return the values of /proc/meminfo in bytes."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}
