"""The history of every lineage is as long as its project wants it: bases are taken, what is too old goes.

One that a compute writes is looked at when it was measured to have written; the others now and then, ever more
rarely while nothing happens to them. A look is quick, and after it comes a rest: however many branches there are, they
take a small share of a processor. A base may take long, so there is one at a time, and after it a pause as long as it
took: on a slow disk not all of the time goes into it, and one in trouble holds up nobody else.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from bough import clock
from bough.engine.port import Engine, EngineError, Kept
from bough.ids import VolumeId
from bough.operations import keeping
from bough.operations.keeping import Ways
from bough.store.histories import LivingLineage
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.history_alarm import HistoryAlarm

AT_ONCE = 3
MOST = 30  # looks that are under way at a time; others that became due meanwhile get their turn between them
REST, LONGEST_REST = 9.0, 1.0  # after a look: so many times as long as it took, and seconds at most
ALL_EVERY = 60.0  # seconds from one look at which lineages there are to the next
SOON, RARELY = 1800.0, 3600.0  # seconds until a lineage that nobody writes is looked at again: at first, and later
IN_TROUBLE = 60.0  # the same of one in trouble, or whose compute has WAL to archive: it may become one


@dataclass(slots=True)
class _Standing:
    """When a lineage is looked at again, unless it is written meanwhile."""

    seen: LivingLineage
    due: float
    pause: float = SOON


class KeepHistory:
    every = 5.0

    def __init__(self, store: Store, engine: Engine, alarm: HistoryAlarm) -> None:
        self._store = store
        self._ways = Ways(read=store.read, transaction=partial(store.transaction, lasting=False))
        self._engine = engine
        self._alarm = alarm
        self._standings: dict[VolumeId, _Standing] = {}
        self._running: set[VolumeId] = set()
        self._due: dict[VolumeId, LivingLineage] = {}  # and not begun yet
        self._all_due = 0.0
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._one_base = asyncio.Lock()

    async def run(self) -> str:
        """Ends when nobody is due. While one takes long the others get their turn."""
        under_way: dict[VolumeId, asyncio.Task[None]] = {}
        found_at, loop = float("-inf"), asyncio.get_running_loop()
        async with asyncio.TaskGroup() as looks:
            while True:
                if loop.time() - found_at >= self.every:
                    await self._find_due()
                    found_at = loop.time()
                for lineage in self._next(under_way):
                    under_way[lineage.volume_id] = looks.create_task(self._look(lineage))
                if not under_way:
                    break
                await asyncio.wait(under_way.values(), timeout=self.every, return_when=asyncio.ALL_COMPLETED)
                under_way = {volume_id: look for volume_id, look in under_way.items() if not look.done()}
        self._alarm.write()
        return ""

    def _next(self, under_way: Collection[VolumeId]) -> list[LivingLineage]:
        """A few of those that are due: one of each project in turn, those that a compute writes before the others."""
        waiting = [lineage for lineage in self._due.values() if lineage.volume_id not in under_way]
        written = [lineage for lineage in waiting if lineage.volume_id in self._running]
        asleep = [lineage for lineage in waiting if lineage.volume_id not in self._running]
        ordered = [one for some in (written, asleep) for one in in_turn(some, lambda each: each.project_id)]
        chosen = ordered[: MOST - len(under_way)]
        for lineage in chosen:
            del self._due[lineage.volume_id]
            self._begin(lineage)
        return chosen

    async def _find_due(self) -> None:
        async with self._store.read() as rows:
            found = await rows.histories.running()
        self._running = {lineage.volume_id for lineage in found}
        now = clock.monotonic()
        if self._all_due <= now:
            self._all_due = now + ALL_EVERY
            async with self._store.read(slow=True) as rows:
                found += [each for each in await rows.histories.every() if each.volume_id not in self._running]
            known = {lineage.volume_id for lineage in found}
            self._standings = {each: standing for each, standing in self._standings.items() if each in known}
            self._due = {each: lineage for each, lineage in self._due.items() if each in known}
            self._alarm.retain(known)
        self._due |= {lineage.volume_id: lineage for lineage in found if self._is_due(lineage, now)}

    def _is_due(self, lineage: LivingLineage, now: float) -> bool:
        standing = self._standings.get(lineage.volume_id)
        return standing is None or standing.seen != lineage or standing.due <= now

    def _begin(self, lineage: LivingLineage) -> None:
        """From now on it is not due: a look that fails is not repeated at once."""
        now, standing = clock.monotonic(), self._standings.get(lineage.volume_id)
        if standing is None or standing.seen != lineage:
            self._standings[lineage.volume_id] = _Standing(lineage, now + SOON)
        else:
            standing.pause = min(standing.pause * 2, RARELY)
            standing.due = now + standing.pause

    async def _look(self, lineage: LivingLineage) -> None:
        async with self._gate:
            began = clock.monotonic()
            kept = await self._keep(lineage, bases=False)
            await asyncio.sleep(min(LONGEST_REST, (clock.monotonic() - began) * REST))
        if kept is not None and kept.base_is_due:
            async with self._one_base:
                began = clock.monotonic()
                await self._keep(lineage, bases=True)
                await asyncio.sleep(clock.monotonic() - began)
        waits = kept is not None and kept.waiting_bytes > 0 and lineage.volume_id in self._running
        standing = self._standings.get(lineage.volume_id)  # None: it is gone meanwhile
        if standing is not None and (waits or self._alarm.is_raised(lineage.volume_id)):
            standing.due = clock.monotonic() + IN_TROUBLE

    async def _keep(self, lineage: LivingLineage, *, bases: bool) -> Kept | None:
        try:
            found = await keeping.keep(self._ways, self._engine, lineage.volume_id, bases=bases)
        except EngineError as error:
            self._alarm.failed(lineage, error.public)
            return None
        if found is None:
            return None
        self._alarm.look(lineage, *found)
        return found[1]
