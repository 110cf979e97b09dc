"""The gateway workers: started when control is ready, kept one by one, ended or left to drain."""

import asyncio
import signal
from collections.abc import Callable, Sequence

from bough.supervisor.drain import STOP_TIMEOUT, DrainingWorkers
from bough.supervisor.processes import ChildProcess


class GatewayProcesses:
    """`before` are the workers of the program that this one replaced; `prepare` runs before the first start."""

    def __init__(
        self, workers: Sequence[ChildProcess], predecessors: DrainingWorkers, before_start: Callable[[], None]
    ) -> None:
        self._workers = tuple(workers)
        self._predecessors = predecessors
        self._prepare = before_start

    @property
    def workers(self) -> Sequence[ChildProcess]:
        return self._workers

    @property
    def draining_pids(self) -> Sequence[int]:
        return self._predecessors.pids

    @property
    def pids(self) -> tuple[int, ...]:
        """Of all that live, draining ones too."""
        return (*(worker.pid for worker in self._workers if worker.pid), *self._predecessors.pids)

    async def start(self) -> None:
        """All at once; then those before them accept nobody new."""
        await asyncio.to_thread(self._prepare)
        await asyncio.gather(*(worker.start() for worker in self._workers))
        self._predecessors.stop_accepting()

    async def keep_alive(self, on_change: Callable[[str], None]) -> None:
        await asyncio.gather(*(worker.keep_alive(on_change) for worker in self._workers))

    async def stop(self, force: asyncio.Event) -> None:
        """At once: clients hear that the platform stops."""
        stops = [worker.stop(signal.SIGTERM, force, timeout=STOP_TIMEOUT) for worker in self._workers]
        await asyncio.gather(*stops, self._predecessors.stop(force))

    def drain(self) -> None:
        """To themselves: they end with their last connection, and nobody waits for it."""
        for worker in self._workers:
            worker.send_signal(signal.SIGQUIT)
        self._predecessors.stop_accepting()
