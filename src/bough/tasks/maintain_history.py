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
from bough.engine.port import EngineError, HistoryEngine, HistoryStatus
from bough.ids import VolumeId
from bough.operations import retention
from bough.operations.actions import ALL_ACTIONS
from bough.operations.retention import StoreAccess
from bough.store.histories import LiveLineage
from bough.store.store import Store
from bough.tasks.history_alarm import HistoryAlarm
from bough.tasks.round_robin import interleave_by_project

CONCURRENCY = 3
MAX_UNDER_WAY = 30  # looks that are under way at a time; others that became due meanwhile get their turn between them
PAUSE_FACTOR, MAX_PAUSE = 9.0, 1.0  # after a look: so many times as long as it took, and seconds at most
FULL_SCAN_INTERVAL = 60.0  # seconds from one look at which lineages there are to the next
MIN_IDLE_INTERVAL, MAX_IDLE_INTERVAL = (
    1800.0,
    3600.0,
)  # seconds until a lineage that nobody writes is looked at again: at first, and later
PROBLEM_INTERVAL = 60.0  # the same of one in trouble, or whose compute has WAL to archive: it may become one


@dataclass(slots=True)
class _InspectionState:
    """When a lineage is looked at again, unless it is written meanwhile."""

    seen: LiveLineage
    due: float
    pause: float = MIN_IDLE_INTERVAL


class MaintainHistory:
    interval = 5.0

    def __init__(self, store: Store, engine: HistoryEngine, alarm: HistoryAlarm) -> None:
        self._store = store
        self._ways = StoreAccess(
            read=store.read, transaction=partial(store.transaction, durable=False), lock_of=ALL_ACTIONS.lock_of
        )
        self._engine = engine
        self._alarm = alarm
        self._states: dict[VolumeId, _InspectionState] = {}
        self._running: set[VolumeId] = set()
        self._due: dict[VolumeId, LiveLineage] = {}  # and not begun yet
        self._all_due = 0.0
        self._gate = asyncio.Semaphore(CONCURRENCY)
        self._one_base = asyncio.Lock()

    async def run(self) -> str:
        """Ends when nobody is due. While one takes long the others get their turn."""
        under_way: dict[VolumeId, asyncio.Task[None]] = {}
        found_at, loop = float("-inf"), asyncio.get_running_loop()
        async with asyncio.TaskGroup() as looks:
            while True:
                if loop.time() - found_at >= self.interval:
                    await self._find_due()
                    found_at = loop.time()
                for lineage in self._next(under_way):
                    under_way[lineage.volume_id] = looks.create_task(self._inspect(lineage))
                if not under_way:
                    break
                await asyncio.wait(under_way.values(), timeout=self.interval, return_when=asyncio.ALL_COMPLETED)
                under_way = {volume_id: look for volume_id, look in under_way.items() if not look.done()}
        self._alarm.write()
        return ""

    def _next(self, under_way: Collection[VolumeId]) -> list[LiveLineage]:
        """A few of those that are due: one of each project in turn, those that a compute writes before the others."""
        waiting = [lineage for lineage in self._due.values() if lineage.volume_id not in under_way]
        written = [lineage for lineage in waiting if lineage.volume_id in self._running]
        asleep = [lineage for lineage in waiting if lineage.volume_id not in self._running]
        ordered = [
            one for some in (written, asleep) for one in interleave_by_project(some, lambda each: each.project_id)
        ]
        chosen = ordered[: MAX_UNDER_WAY - len(under_way)]
        for lineage in chosen:
            del self._due[lineage.volume_id]
            self._begin(lineage)
        return chosen

    async def _find_due(self) -> None:
        async with self._store.read() as rows:
            found = await rows.histories.list_running()
        self._running = {lineage.volume_id for lineage in found}
        now = clock.monotonic()
        if self._all_due <= now:
            self._all_due = now + FULL_SCAN_INTERVAL
            async with self._store.read(slow=True) as rows:
                found += [each for each in await rows.histories.list_all() if each.volume_id not in self._running]
            known = {lineage.volume_id for lineage in found}
            self._states = {each: standing for each, standing in self._states.items() if each in known}
            self._due = {each: lineage for each, lineage in self._due.items() if each in known}
            self._alarm.retain(known)
        self._due |= {lineage.volume_id: lineage for lineage in found if self._is_due(lineage, now)}

    def _is_due(self, lineage: LiveLineage, now: float) -> bool:
        standing = self._states.get(lineage.volume_id)
        return standing is None or standing.seen != lineage or standing.due <= now

    def _begin(self, lineage: LiveLineage) -> None:
        """From now on it is not due: a look that fails is not repeated at once."""
        now, standing = clock.monotonic(), self._states.get(lineage.volume_id)
        if standing is None or standing.seen != lineage:
            self._states[lineage.volume_id] = _InspectionState(lineage, now + MIN_IDLE_INTERVAL)
        else:
            standing.pause = min(standing.pause * 2, MAX_IDLE_INTERVAL)
            standing.due = now + standing.pause

    async def _inspect(self, lineage: LiveLineage) -> None:
        async with self._gate:
            began = clock.monotonic()
            kept = await self._maintain(lineage, bases=False)
            await asyncio.sleep(min(MAX_PAUSE, (clock.monotonic() - began) * PAUSE_FACTOR))
        if kept is not None and kept.is_base_due:
            async with self._one_base:
                began = clock.monotonic()
                await self._maintain(lineage, bases=True)
                await asyncio.sleep(clock.monotonic() - began)
        waits = kept is not None and kept.waiting_bytes > 0 and lineage.volume_id in self._running
        standing = self._states.get(lineage.volume_id)  # None: it is gone meanwhile
        if standing is not None and (waits or self._alarm.is_raised(lineage.volume_id)):
            standing.due = clock.monotonic() + PROBLEM_INTERVAL

    async def _maintain(self, lineage: LiveLineage, *, bases: bool) -> HistoryStatus | None:
        try:
            found = await retention.apply_retention(self._ways, self._engine, lineage.volume_id, takes_base=bases)
        except EngineError as error:
            self._alarm.record_failure(lineage, error.public_message)
            return None
        if found is None:
            return None
        self._alarm.check(lineage, *found)
        return found[1]
