"""Looks at computes, a few at once. One that takes long makes room for the others and goes on aside.

Whoever does not answer is left alone for a while, and looked at aside from then on, until it answers soon again. So a
compute that is slow, locked or silent on purpose delays nobody: the few places are for those that answer. How many may
be aside is limited, and how many looks one project has at once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from bough import clock, log
from bough.engine.port import EngineError
from bough.ids import EndpointId, ProjectId

SLOW_AFTER_SECONDS = 1.0  # seconds that a look has one of the few places
TIMEOUT_SECONDS = 60.0  # seconds of any look
MAX_SLOW = 16  # looks at once that take longer
MAX_PER_PROJECT = 2  # looks at once

_BACKOFF_SECONDS = 30.0
_MAX_SLOW_KNOWN = 10_000  # computes that did not answer soon

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


T = TypeVar("T", bound=InspectionTarget)


class InspectionPool(Generic[T]):
    def __init__(
        self,
        concurrency: int,
        inspect: Callable[[T], Awaitable[bool]],
        on_unanswered: Callable[[T], None] | None = None,
    ) -> None:
        """`look` says whether it changed something; `unanswered` hears of those that could not be looked at."""
        self._inspect = inspect
        self._on_unanswered = on_unanswered
        self._fast_slots = asyncio.Semaphore(concurrency)
        self._projects: WeakValueDictionary[ProjectId, asyncio.Semaphore] = WeakValueDictionary()
        self._slow_running = 0
        self._has_slow_slot = asyncio.Event()
        self._has_slow_slot.set()
        self._slow: set[EndpointId] = set()
        self._backoff = Backoff()
        self._under_way: dict[EndpointId, asyncio.Task[bool]] = {}

    @property
    def has_running(self) -> bool:
        return bool(self._under_way)

    def can_inspect(self, endpoint_id: EndpointId) -> bool:
        """Not at one that did not answer a moment ago, nor at one that is being looked at."""
        return endpoint_id not in self._under_way and self._backoff.is_ready(endpoint_id)

    def back_off(self, endpoint_id: EndpointId) -> None:
        """For a while."""
        self._backoff.back_off(endpoint_id)

    async def run(self, targets: Iterable[T]) -> int:
        """Ends when all were looked at; how many changed."""

        left = list(targets)

        async def given() -> Iterable[T]:
            taken, left[:] = left[:], []
            return taken

        return await self.run_while_due(given, interval=None)

    async def run_while_due(self, find_due: Callable[[], Awaitable[Iterable[T]]], interval: float | None) -> int:
        """Ends when nobody is due any more. While one takes long, those that become due have their turn."""
        changed = 0
        try:
            while True:
                for target in list(await find_due()):
                    self._under_way[target.id] = asyncio.create_task(self._one(target))
                if self._under_way:
                    await asyncio.wait(self._under_way.values(), timeout=interval)
                    changed += self._take_ended()
                if not self._under_way:
                    return changed
        finally:
            await self._cancel_all()

    def _take_ended(self) -> int:
        ended = {each: look for each, look in self._under_way.items() if look.done()}
        for each in ended:
            del self._under_way[each]
        return sum(look.result() for look in ended.values())

    async def _cancel_all(self) -> None:
        """What is under way when we are stopped."""
        dropped, self._under_way = list(self._under_way.values()), {}
        for look in dropped:
            look.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)

    async def _one(self, target: T) -> bool:
        project = self._projects.setdefault(target.project_id, asyncio.Semaphore(MAX_PER_PROJECT))
        async with project:
            try:
                is_slow = target.id in self._slow
                async with self._in_slow_slot(target.id) if is_slow else self._in_fast_slot(target.id):
                    return await self._inspect(target)
            except (EngineError, TimeoutError) as error:
                reason = error.public_message if isinstance(error, EngineError) else "It does not answer."
                logger.warning("compute_not_looked_at", endpoint_id=target.id, reason=reason)
            except Exception as error:
                logger.error("look_failed", endpoint_id=target.id, exc_info=error)
        self._note_slow(target.id)
        self._backoff.back_off(target.id)
        if self._on_unanswered is not None:
            self._on_unanswered(target)
        return False

    @asynccontextmanager
    async def _in_fast_slot(self, endpoint: EndpointId) -> AsyncIterator[None]:
        """After a moment the place is somebody else's. When nobody more can go aside, the look ends there."""
        await self._fast_slots.acquire()
        is_aside = False

        def go_aside() -> None:
            nonlocal is_aside
            self._note_slow(endpoint)
            if self._slow_running >= MAX_SLOW:
                limit.reschedule(asyncio.get_running_loop().time())
                return
            is_aside = True
            self._fast_slots.release()
            self._enter()

        timer = None
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS) as limit:
                timer = asyncio.get_running_loop().call_later(SLOW_AFTER_SECONDS, go_aside)
                yield
        finally:
            if timer is not None:
                timer.cancel()
            if is_aside:
                self._leave()
            else:
                self._fast_slots.release()

    @asynccontextmanager
    async def _in_slow_slot(self, endpoint: EndpointId) -> AsyncIterator[None]:
        while self._slow_running >= MAX_SLOW:
            await self._has_slow_slot.wait()
        self._enter()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                yield
            if asyncio.get_running_loop().time() - began < SLOW_AFTER_SECONDS:
                self._slow.discard(endpoint)
        finally:
            self._leave()

    def _enter(self) -> None:
        self._slow_running += 1
        if self._slow_running >= MAX_SLOW:
            self._has_slow_slot.clear()

    def _leave(self) -> None:
        self._slow_running -= 1
        self._has_slow_slot.set()

    def _note_slow(self, endpoint: EndpointId) -> None:
        if len(self._slow) >= _MAX_SLOW_KNOWN:
            self._slow.clear()
        self._slow.add(endpoint)
