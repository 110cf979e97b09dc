"""The workers of the runner: how many operations run at the same time.

Urgent operations, which a client waits for, have workers of their own. One project never uses all workers, and an
operation that runs for long does not count against the limit, up to twice the number of workers: a compute that does
not answer delays the operations of its own project only.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

from bough import clock
from bough.domain.operation import Lane, Operation
from bough.ids import ProjectId

LONG_RUNNING_SECONDS = 5.0  # an operation that takes longer no longer occupies a worker


@dataclass(frozen=True, slots=True)
class _RunningOperation:
    project_id: ProjectId
    started: float


def max_workers_per_project(workers: int) -> int:
    """Return how many of the workers one project may use at the same time."""
    return max(1, workers - max(1, workers // 4))


class Workers:
    def __init__(self, *, urgent: int, regular: int) -> None:
        self._counts = {Lane.URGENT: urgent, Lane.REGULAR: regular}
        self._running: dict[Lane, dict[asyncio.Task[None], _RunningOperation]] = {lane: {} for lane in Lane}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [task for lane in self._running.values() for task in lane]

    def add(self, operation: Operation, task: asyncio.Task[None]) -> None:
        self._running[operation.lane][task] = _RunningOperation(operation.project_id, clock.monotonic())

    def remove(self, task: asyncio.Task[None]) -> None:
        for running in self._running.values():
            running.pop(task, None)

    def find_free_lanes(self) -> list[Lane]:
        return [lane for lane in self._running if self._has_worker(lane)]

    def _has_worker(self, lane: Lane) -> bool:
        running, count = self._running[lane], self._counts[lane]
        recent = clock.monotonic() - LONG_RUNNING_SECONDS
        return len(running) < 2 * count and sum(each.started > recent for each in running.values()) < count

    def find_saturated_projects(self, lane: Lane) -> list[ProjectId]:
        limit = max_workers_per_project(self._counts[lane])
        counts = Counter(each.project_id for each in self._running[lane].values())
        return [project for project, count in counts.items() if count >= limit]
