"""Inspects computes, a few concurrently. A slow inspection moves from a fast slot to a slow one and continues.

Backs off a compute that does not respond, and inspects it in a slow slot until it responds quickly again. A slow,
locked or malicious compute therefore delays no other: the fast slots serve those that respond. The number of slow slots
is limited, and so is the number of concurrent inspections per project.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from bough import clock, log
from bough.engine.port import EngineError
from bough.ids import EndpointId, ProjectId

SLOW_AFTER_SECONDS = 1.0  # time limit in a fast slot
TIMEOUT_SECONDS = 60.0  # time limit of any inspection
MAX_SLOW = 16  # concurrent slow inspections
MAX_PER_PROJECT = 2  # concurrent inspections

_BACKOFF_SECONDS = 30.0
_MAX_SLOW_KNOWN = 10_000  # remembered slow computes

logger = log.get_logger(component="tasks")


class Backoff:
    """Skips an unresponsive compute for 30 s, because waiting for it delays the others."""

    def __init__(self) -> None:
        self._until: dict[EndpointId, float] = {}

    def back_off(self, endpoint: EndpointId) -> None:
        now = clock.monotonic()
        self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[endpoint] = now + _BACKOFF_SECONDS

    def is_ready(self, endpoint: EndpointId) -> bool:
        return self._until.get(endpoint, 0.0) <= clock.monotonic()


class InspectionTarget(Protocol):
    @property
    def id(self) -> EndpointId: ...
    @property
    def project_id(self) -> ProjectId: ...


@dataclass(frozen=True, slots=True)
class InspectedEndpoint:
    id: EndpointId
    project_id: ProjectId


T = TypeVar("T", bound=InspectionTarget)


class InspectionPool(Generic[T]):
    def __init__(
        self,
        concurrency: int,
        inspect: Callable[[T], Awaitable[bool]],
        on_unanswered: Callable[[T], None] | None = None,
    ) -> None:
        """`inspect` returns whether it changed something; `on_unanswered` is called for computes that failed."""
        self._inspect = inspect
        self._on_unanswered = on_unanswered
        self._fast_slots = asyncio.Semaphore(concurrency)
        self._projects: WeakValueDictionary[ProjectId, asyncio.Semaphore] = WeakValueDictionary()
        self._slow_running = 0
        self._has_slow_slot = asyncio.Event()
        self._has_slow_slot.set()
        self._slow: set[EndpointId] = set()
        self._backoff = Backoff()
        self._running: dict[EndpointId, asyncio.Task[bool]] = {}

    @property
    def has_running(self) -> bool:
        return bool(self._running)

    def can_inspect(self, endpoint_id: EndpointId) -> bool:
        """Return False for a compute that is backed off or being inspected."""
        return endpoint_id not in self._running and self._backoff.is_ready(endpoint_id)

    def back_off(self, endpoint_id: EndpointId) -> None:
        """Skip the compute for a while."""
        self._backoff.back_off(endpoint_id)

    async def run(self, targets: Iterable[T]) -> int:
        """Inspect all targets; return how many changed."""

        remaining = list(targets)

        async def take_all() -> Iterable[T]:
            batch, remaining[:] = remaining[:], []
            return batch

        return await self.run_while_due(take_all, interval=None)

    async def run_while_due(self, find_due: Callable[[], Awaitable[Iterable[T]]], interval: float | None) -> int:
        """Inspect until nothing is due. A slow inspection does not delay targets that become due meanwhile."""
        changed = 0
        try:
            while True:
                for target in list(await find_due()):
                    self._running[target.id] = asyncio.create_task(self._run_one(target))
                if self._running:
                    await asyncio.wait(self._running.values(), timeout=interval)
                    changed += self._collect_finished()
                if not self._running:
                    return changed
        finally:
            await self._cancel_all()

    def _collect_finished(self) -> int:
        finished = {each: task for each, task in self._running.items() if task.done()}
        for each in finished:
            del self._running[each]
        return sum(task.result() for task in finished.values())

    async def _cancel_all(self) -> None:
        """Cancel running inspections when the task is stopped."""
        cancelled, self._running = list(self._running.values()), {}
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*cancelled, return_exceptions=True)

    async def _run_one(self, target: T) -> bool:
        project = self._projects.setdefault(target.project_id, asyncio.Semaphore(MAX_PER_PROJECT))
        async with project:
            try:
                is_slow = target.id in self._slow
                async with self._in_slow_slot(target.id) if is_slow else self._in_fast_slot(target.id):
                    return await self._inspect(target)
            except (EngineError, TimeoutError) as error:
                reason = error.public_message if isinstance(error, EngineError) else "The compute does not respond."
                logger.warning("compute_not_inspected", endpoint_id=target.id, reason=reason)
            except Exception as error:
                logger.error("inspection_failed", endpoint_id=target.id, exc_info=error)
        self._mark_slow(target.id)
        self._backoff.back_off(target.id)
        if self._on_unanswered is not None:
            self._on_unanswered(target)
        return False

    @asynccontextmanager
    async def _in_fast_slot(self, endpoint: EndpointId) -> AsyncIterator[None]:
        """After SLOW_AFTER_SECONDS, move the inspection to a slow slot, or cancel it if none is free."""
        await self._fast_slots.acquire()
        is_slow = False

        def move_to_slow_slot() -> None:
            nonlocal is_slow
            self._mark_slow(endpoint)
            if self._slow_running >= MAX_SLOW:
                limit.reschedule(asyncio.get_running_loop().time())
                return
            is_slow = True
            self._fast_slots.release()
            self._take_slow_slot()

        timer = None
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS) as limit:
                timer = asyncio.get_running_loop().call_later(SLOW_AFTER_SECONDS, move_to_slow_slot)
                yield
        finally:
            if timer is not None:
                timer.cancel()
            if is_slow:
                self._free_slow_slot()
            else:
                self._fast_slots.release()

    @asynccontextmanager
    async def _in_slow_slot(self, endpoint: EndpointId) -> AsyncIterator[None]:
        while self._slow_running >= MAX_SLOW:
            await self._has_slow_slot.wait()
        self._take_slow_slot()
        started_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                yield
            if asyncio.get_running_loop().time() - started_at < SLOW_AFTER_SECONDS:
                self._slow.discard(endpoint)
        finally:
            self._free_slow_slot()

    def _take_slow_slot(self) -> None:
        self._slow_running += 1
        if self._slow_running >= MAX_SLOW:
            self._has_slow_slot.clear()

    def _free_slow_slot(self) -> None:
        self._slow_running -= 1
        self._has_slow_slot.set()

    def _mark_slow(self, endpoint: EndpointId) -> None:
        if len(self._slow) >= _MAX_SLOW_KNOWN:
            self._slow.clear()
        self._slow.add(endpoint)
