"""Runs blocking work in threads, and provides locks by name."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import TypeVar
from weakref import WeakValueDictionary

from bough.engine.port import EngineError

T = TypeVar("T")


async def run_shielded(
    work: Callable[[], T], executor: Executor | None = None, *, on_cancel: Callable[[], object] | None = None
) -> T:
    """Run `work` in a thread, and wait for its end even if the caller is cancelled.

    A thread cannot be cancelled, and returning early would release the caller's lock while it works. `on_cancel` can
    tell it to finish early.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.wrap_future(submit_work(work, lambda run: loop.run_in_executor(executor, run)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait([task])
        task.exception()  # retrieved, so that asyncio does not report it
        raise


def submit_work(work: Callable[[], T], submit: Callable[[Callable[[], None]], object]) -> Future[T]:
    """Submit work to an executor; after an error the work never runs.

    When the machine has no thread left, an executor raises but keeps the work in its queue, and would run it later.
    """
    future: Future[T] = Future()

    def run() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  raised where the result is read
                future.set_exception(error)

    try:
        submit(run)
    except RuntimeError as error:
        if future.cancel():
            raise EngineError("The machine cannot start more threads.") from error
    return future


class FairThreadPool:
    """Threads shared by all projects, of which each project uses only a few at a time.

    However long the work of one project takes, there is a thread for the next.
    """

    def __init__(self, count: int, name: str, *, per_project: int) -> None:
        self._threads = ThreadPoolExecutor(count, name)
        self._per_project = per_project
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, work: Callable[[], T], project: str, *, on_cancel: Callable[[], object] | None = None) -> T:
        """Like `run_shielded`; a caller that is cancelled while it waits for a thread does nothing."""
        semaphore = self._semaphores.get(project)
        if semaphore is None:
            semaphore = self._semaphores[project] = asyncio.Semaphore(self._per_project)
        async with semaphore:
            return await run_shielded(work, self._threads, on_cancel=on_cancel)

    def close(self) -> None:
        self._threads.shutdown()


class NamedLocks:
    """One lock per name, dropped when no task uses it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
