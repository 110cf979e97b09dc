"""The gateway workers: started when control is ready, kept one by one, ended or left to drain."""

import asyncio
import signal
from collections.abc import Callable, Sequence

from bough.cli.admin.child import Child
from bough.cli.admin.drain import STOP_LIMIT, Drain


class Gateways:
    """`before` are the workers of the program that this one replaced; `prepare` runs before the first start."""

    def __init__(self, workers: Sequence[Child], before: Drain, prepare: Callable[[], None]) -> None:
        self._workers = tuple(workers)
        self._before = before
        self._prepare = prepare

    @property
    def workers(self) -> Sequence[Child]:
        return self._workers

    @property
    def draining(self) -> Sequence[int]:
        return self._before.pids

    @property
    def pids(self) -> tuple[int, ...]:
        """Of all that live, draining ones too."""
        return (*(worker.pid for worker in self._workers if worker.pid), *self._before.pids)

    async def start(self) -> None:
        """All at once; then those before them accept nobody new."""
        await asyncio.to_thread(self._prepare)
        await asyncio.gather(*(worker.start() for worker in self._workers))
        self._before.begin()

    async def keep(self, changed: Callable[[str], None]) -> None:
        await asyncio.gather(*(worker.keep(changed) for worker in self._workers))

    async def end(self, hurry: asyncio.Event) -> None:
        """At once: clients hear that the platform stops."""
        stops = [worker.stop(signal.SIGTERM, hurry, limit=STOP_LIMIT) for worker in self._workers]
        await asyncio.gather(*stops, self._before.end(hurry))

    def leave(self) -> None:
        """To themselves: they end with their last connection, and nobody waits for it."""
        for worker in self._workers:
            worker.send(signal.SIGQUIT)
        self._before.begin()
