"""Keeps the history of every lineage as long as its project retains it: takes bases and removes old history.

A lineage with a running compute is inspected after it has written; others less and less often while nothing changes.
An inspection is quick and is followed by a pause, so that even many branches use only a small share of a core. A base
may take long, so only one is taken at a time, followed by a pause as long as it took: on a slow disk bases do not use
all of the bandwidth, and a failing lineage does not delay the others.
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
MAX_RUNNING = 30  # concurrent inspections, so that lineages that become due in between are not delayed
PAUSE_FACTOR, MAX_PAUSE = 9.0, 1.0  # pause after an inspection, relative to its duration; seconds at most
FULL_SCAN_INTERVAL = 60.0  # seconds between queries for all lineages
MIN_IDLE_INTERVAL, MAX_IDLE_INTERVAL = 1800.0, 3600.0  # seconds between inspections of an unchanged lineage
PROBLEM_INTERVAL = 60.0  # the same for a lineage with a problem, or with WAL that waits to be archived


@dataclass(slots=True)
class _InspectionState:
    """When a lineage is inspected next, unless it changes before."""

    lineage: LiveLineage
    due: float
    pause: float = MIN_IDLE_INTERVAL


class MaintainHistory:
    interval = 5.0

    def __init__(self, store: Store, engine: HistoryEngine, alarm: HistoryAlarm) -> None:
        self._store = store
        self._store_access = StoreAccess(
            read=store.read, transaction=partial(store.transaction, durable=False), lock_of=ALL_ACTIONS.lock_of
        )
        self._engine = engine
        self._alarm = alarm
        self._states: dict[VolumeId, _InspectionState] = {}
        self._running: set[VolumeId] = set()
        self._due: dict[VolumeId, LiveLineage] = {}  # due and not started yet
        self._full_scan_due = 0.0
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._base_lock = asyncio.Lock()

    async def run(self) -> str:
        """Inspect until no lineage is due. A slow one does not delay the others."""
        running: dict[VolumeId, asyncio.Task[None]] = {}
        found_at, loop = float("-inf"), asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                if loop.time() - found_at >= self.interval:
                    await self._find_due()
                    found_at = loop.time()
                for lineage in self._next(running):
                    running[lineage.volume_id] = group.create_task(self._inspect(lineage))
                if not running:
                    break
                await asyncio.wait(running.values(), timeout=self.interval, return_when=asyncio.ALL_COMPLETED)
                running = {volume_id: task for volume_id, task in running.items() if not task.done()}
        self._alarm.write()
        return ""

    def _next(self, running: Collection[VolumeId]) -> list[LiveLineage]:
        """Choose the lineages to start: round robin over projects, those with a running compute first."""
        waiting = [lineage for lineage in self._due.values() if lineage.volume_id not in running]
        active = [lineage for lineage in waiting if lineage.volume_id in self._running]
        idle = [lineage for lineage in waiting if lineage.volume_id not in self._running]
        ordered = [
            lineage
            for group in (active, idle)
            for lineage in interleave_by_project(group, lambda each: each.project_id)
        ]
        chosen = ordered[: MAX_RUNNING - len(running)]
        for lineage in chosen:
            del self._due[lineage.volume_id]
            self._mark_started(lineage)
        return chosen

    async def _find_due(self) -> None:
        async with self._store.read() as rows:
            found = await rows.histories.list_running()
        self._running = {lineage.volume_id for lineage in found}
        now = clock.monotonic()
        if self._full_scan_due <= now:
            self._full_scan_due = now + FULL_SCAN_INTERVAL
            async with self._store.read(slow=True) as rows:
                found += [each for each in await rows.histories.list_all() if each.volume_id not in self._running]
            known = {lineage.volume_id for lineage in found}
            self._states = {each: state for each, state in self._states.items() if each in known}
            self._due = {each: lineage for each, lineage in self._due.items() if each in known}
            self._alarm.retain(known)
        self._due |= {lineage.volume_id: lineage for lineage in found if self._is_due(lineage, now)}

    def _is_due(self, lineage: LiveLineage, now: float) -> bool:
        state = self._states.get(lineage.volume_id)
        return state is None or state.lineage != lineage or state.due <= now

    def _mark_started(self, lineage: LiveLineage) -> None:
        """Schedule the next inspection first, so that a failed one is not repeated at once."""
        now, state = clock.monotonic(), self._states.get(lineage.volume_id)
        if state is None or state.lineage != lineage:
            self._states[lineage.volume_id] = _InspectionState(lineage, now + MIN_IDLE_INTERVAL)
        else:
            state.pause = min(state.pause * 2, MAX_IDLE_INTERVAL)
            state.due = now + state.pause

    async def _inspect(self, lineage: LiveLineage) -> None:
        async with self._slots:
            started_at = clock.monotonic()
            status = await self._maintain(lineage, take_bases=False)
            await asyncio.sleep(min(MAX_PAUSE, (clock.monotonic() - started_at) * PAUSE_FACTOR))
        if status is not None and status.is_base_due:
            async with self._base_lock:
                started_at = clock.monotonic()
                await self._maintain(lineage, take_bases=True)
                await asyncio.sleep(clock.monotonic() - started_at)
        has_waiting_wal = status is not None and status.waiting_bytes > 0 and lineage.volume_id in self._running
        state = self._states.get(lineage.volume_id)  # None if it was deleted in the meantime
        if state is not None and (has_waiting_wal or self._alarm.is_raised(lineage.volume_id)):
            state.due = clock.monotonic() + PROBLEM_INTERVAL

    async def _maintain(self, lineage: LiveLineage, *, take_bases: bool) -> HistoryStatus | None:
        try:
            result = await retention.apply_retention(
                self._store_access, self._engine, lineage.volume_id, take_bases=take_bases
            )
        except EngineError as error:
            self._alarm.record_failure(lineage, error.public_message)
            return None
        if result is None:
            return None
        self._alarm.check(lineage, *result)
        return result[1]
