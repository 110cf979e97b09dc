"""Runs each task at its interval, one at a time, in one of the control processes that share a store.

A failed task is logged and runs again at its next interval; tasks do not retry by themselves.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from bough import clock, log
from bough.errors import PlatformError
from bough.store.store import Store

logger = log.get_logger(component="tasks")


class Task(Protocol):
    @property
    def interval(self) -> float:
        """Seconds between two runs, read after each run."""

    async def run(self) -> str:
        """Inspect, act, and return what was done as a short text, or an empty string."""


class Loop:
    """Several loops run concurrently, each with its own tasks and name, so that slow tasks do not delay quick ones."""

    def __init__(self, store: Store, tasks: Sequence[Task], name: str = "tasks") -> None:
        self._store = store
        self._name = name
        self._due = {task: clock.monotonic() for task in tasks}

    async def run(self) -> None:
        while True:
            try:
                async with self._store.try_leader_lock(self._name) as leader:
                    if leader:
                        await self.run_due()
            except PlatformError as error:  # the store is unavailable
                logger.error("tasks_paused", error=str(error), cause=str(error.__cause__))
                await asyncio.sleep(1)
            soonest = min(self._due.values())
            await asyncio.sleep(max(0.05, soonest - clock.monotonic()))

    @property
    def name(self) -> str:
        return self._name

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(self._due)

    async def run_all(self) -> None:
        """Run each task once, in order, due or not."""
        for task in self._due:
            await self._run(task)

    async def run_due(self) -> None:
        for task, due in self._due.items():
            if due <= clock.monotonic():
                await self._run(task)

    async def _run(self, task: Task) -> None:
        await self._run_logged(task)
        self._due[task] = clock.monotonic() + task.interval

    async def _run_logged(self, task: Task) -> None:
        name = type(task).__name__
        try:
            result = await task.run()
        except PlatformError as error:  # an expected failure, without a traceback
            logger.error("task_failed", task=name, error=str(error))
            return
        except Exception as error:
            logger.error("task_failed", task=name, exc_info=error)
            return
        if result:
            logger.info("task_ran", task=name, result=result)
