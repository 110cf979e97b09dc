"""Blocking work off the event loop, and the locks that keep verbs on one thing apart."""

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
    """Run `work` in a thread, and wait for its end even when the caller is cancelled.

    A thread cannot be cancelled; leaving it behind would release the caller's lock in its middle. It can
    be told to `hurry`.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.wrap_future(submit_work(work, lambda run: loop.run_in_executor(executor, run)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait([task])
        task.exception()  # whoever asked has left; nobody else will read it
        raise


def submit_work(work: Callable[[], T], submit: Callable[[Callable[[], None]], object]) -> Future[T]:
    """Work that was handed to an executor, or an error and no work.

    When the machine has no thread left, an executor says so and keeps the work in its queue all the
    same: it would be done by surprise, once there is a thread again.
    """
    future: Future[T] = Future()

    def run() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
                future.set_exception(error)

    try:
        submit(run)
    except RuntimeError as error:
        if future.cancel():
            raise EngineError("The machine starts no more threads.") from error
    return future


class FairThreadPool:
    """Threads that all projects share. Each project has few of them at a time, and its other work waits for these:
    whatever one project makes long, there is a thread for the next.
    """

    def __init__(self, count: int, name: str, *, per_project: int) -> None:
        self._threads = ThreadPoolExecutor(count, name)
        self._each = per_project
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, work: Callable[[], T], project: str, *, on_cancel: Callable[[], object] | None = None) -> T:
        """As `unbroken` does; who is cancelled before it is the project's turn does nothing."""
        turn = self._semaphores.get(project)
        if turn is None:
            turn = self._semaphores[project] = asyncio.Semaphore(self._each)
        async with turn:
            return await run_shielded(work, self._threads, on_cancel=on_cancel)

    def close(self) -> None:
        self._threads.shutdown()


class NamedLocks:
    """A lock a name, forgotten when nobody holds it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
