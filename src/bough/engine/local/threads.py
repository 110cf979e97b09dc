"""Blocking work off the event loop, and the locks that keep verbs on one thing apart."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


async def unbroken(work: Callable[[], T], executor: Executor | None = None) -> T:
    """Run `work` in a thread, and wait for its end even when the caller is cancelled.

    A thread cannot be cancelled; leaving it behind would release the caller's lock in its middle.
    """
    task = asyncio.get_running_loop().run_in_executor(executor, work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        task.exception()  # whoever asked has left; nobody else will read it
        raise


class Locks:
    """A lock a name, forgotten when nobody holds it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> AbstractAsyncContextManager[None]:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
