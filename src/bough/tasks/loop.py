"""Runs each task on its beat, one at a time, in one of the controls that share a store.

A task that fails is logged and comes back at its next beat; it does not retry inside.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from bough import clock, log
from bough.errors import PlatformError
from bough.store.store import Store

logger = log.get_logger(component="tasks")


class Task(Protocol):
    interval: float  # seconds between two runs

    async def run(self) -> str:
        """Look at the world, nudge it, say what was done; empty when there was nothing."""


class Loop:
    """Several may run beside one another, each with tasks and a name of its own: slow tasks hold up no quick ones."""

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
            except PlatformError as error:  # the store is away; it will be back
                logger.error("tasks_wait", error=str(error), cause=str(error.__cause__))
                await asyncio.sleep(1)
            soonest = min(self._due.values())
            await asyncio.sleep(max(0.05, soonest - clock.monotonic()))

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
            sentence = await task.run()
        except PlatformError as error:  # a trouble with words of its own
            logger.error("task_failed", task=name, error=str(error))
            return
        except Exception as error:
            logger.error("task_failed", task=name, exc_info=error)
            return
        if sentence:
            logger.info("task_ran", task=name, sentence=sentence)
