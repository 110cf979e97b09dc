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

from bough import log
from bough.engine.port import EngineError
from bough.ids import EndpointId, ProjectId
from bough.tasks.patience import Patience

SOON = 1.0  # seconds that a look has one of the few places
LONGEST = 60.0  # seconds of any look
ASIDE = 16  # looks at once that take longer
OF_A_PROJECT = 2  # looks at once

_REMEMBERED = 10_000  # computes that did not answer soon

logger = log.get(room="tasks")


class Target(Protocol):
    @property
    def id(self) -> EndpointId: ...
    @property
    def project_id(self) -> ProjectId: ...


T = TypeVar("T", bound=Target)


class Looks(Generic[T]):
    def __init__(
        self, at_once: int, look: Callable[[T], Awaitable[bool]], unanswered: Callable[[T], None] | None = None
    ) -> None:
        """`look` says whether it changed something; `unanswered` hears of those that could not be looked at."""
        self._look = look
        self._unanswered = unanswered
        self._places = asyncio.Semaphore(at_once)
        self._projects: WeakValueDictionary[ProjectId, asyncio.Semaphore] = WeakValueDictionary()
        self._aside = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._slow: set[EndpointId] = set()
        self._patience = Patience()
        self._under_way: dict[EndpointId, asyncio.Task[bool]] = {}

    @property
    def are_under_way(self) -> bool:
        return bool(self._under_way)

    def may_look(self, endpoint: EndpointId) -> bool:
        """Not at one that did not answer a moment ago, nor at one that is being looked at."""
        return endpoint not in self._under_way and self._patience.has(endpoint)

    def leave_alone(self, endpoint: EndpointId) -> None:
        """For a while."""
        self._patience.lose(endpoint)

    async def at(self, targets: Iterable[T]) -> int:
        """Ends when all were looked at; how many changed."""

        left = list(targets)

        async def given() -> Iterable[T]:
            taken, left[:] = left[:], []
            return taken

        return await self.while_due(given, every=None)

    async def while_due(self, due: Callable[[], Awaitable[Iterable[T]]], every: float | None) -> int:
        """Ends when nobody is due any more. While one takes long, those that become due have their turn."""
        changed = 0
        try:
            while True:
                for target in list(await due()):
                    self._under_way[target.id] = asyncio.create_task(self._one(target))
                if self._under_way:
                    await asyncio.wait(self._under_way.values(), timeout=every)
                    changed += self._take_ended()
                if not self._under_way:
                    return changed
        finally:
            await self._drop()

    def _take_ended(self) -> int:
        ended = {each: look for each, look in self._under_way.items() if look.done()}
        for each in ended:
            del self._under_way[each]
        return sum(look.result() for look in ended.values())

    async def _drop(self) -> None:
        """What is under way when we are stopped."""
        dropped, self._under_way = list(self._under_way.values()), {}
        for look in dropped:
            look.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)

    async def _one(self, target: T) -> bool:
        project = self._projects.setdefault(target.project_id, asyncio.Semaphore(OF_A_PROJECT))
        async with project:
            try:
                is_slow = target.id in self._slow
                async with self._in_aside(target.id) if is_slow else self._in_place(target.id):
                    return await self._look(target)
            except (EngineError, TimeoutError) as error:
                reason = error.public if isinstance(error, EngineError) else "It does not answer."
                logger.warning("compute_not_looked_at", endpoint_id=target.id, reason=reason)
            except Exception as error:
                logger.error("look_failed", endpoint_id=target.id, exc_info=error)
        self._note_slow(target.id)
        self._patience.lose(target.id)
        if self._unanswered is not None:
            self._unanswered(target)
        return False

    @asynccontextmanager
    async def _in_place(self, endpoint: EndpointId) -> AsyncIterator[None]:
        """After a moment the place is somebody else's. When nobody more can go aside, the look ends there."""
        await self._places.acquire()
        is_aside = False

        def go_aside() -> None:
            nonlocal is_aside
            self._note_slow(endpoint)
            if self._aside >= ASIDE:
                limit.reschedule(asyncio.get_running_loop().time())
                return
            is_aside = True
            self._places.release()
            self._enter()

        timer = None
        try:
            async with asyncio.timeout(LONGEST) as limit:
                timer = asyncio.get_running_loop().call_later(SOON, go_aside)
                yield
        finally:
            if timer is not None:
                timer.cancel()
            if is_aside:
                self._leave()
            else:
                self._places.release()

    @asynccontextmanager
    async def _in_aside(self, endpoint: EndpointId) -> AsyncIterator[None]:
        while self._aside >= ASIDE:
            await self._has_room.wait()
        self._enter()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(LONGEST):
                yield
            if asyncio.get_running_loop().time() - began < SOON:
                self._slow.discard(endpoint)
        finally:
            self._leave()

    def _enter(self) -> None:
        self._aside += 1
        if self._aside >= ASIDE:
            self._has_room.clear()

    def _leave(self) -> None:
        self._aside -= 1
        self._has_room.set()

    def _note_slow(self, endpoint: EndpointId) -> None:
        if len(self._slow) >= _REMEMBERED:
            self._slow.clear()
        self._slow.add(endpoint)
