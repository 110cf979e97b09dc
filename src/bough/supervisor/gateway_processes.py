"""The gateway workers: started together, restarted one by one, stopped or drained."""

import asyncio
import signal
from collections.abc import Callable, Sequence

from bough.supervisor.drain import STOP_TIMEOUT, DrainingWorkers
from bough.supervisor.processes import ChildProcess


class GatewayProcesses:
    """`predecessors` are the workers of the program that this one replaced; `before_start` runs before the start."""

    def __init__(
        self, workers: Sequence[ChildProcess], predecessors: DrainingWorkers, before_start: Callable[[], None]
    ) -> None:
        self._workers = tuple(workers)
        self._predecessors = predecessors
        self._before_start = before_start

    @property
    def workers(self) -> Sequence[ChildProcess]:
        return self._workers

    @property
    def draining_pids(self) -> Sequence[int]:
        return self._predecessors.pids

    @property
    def pids(self) -> tuple[int, ...]:
        """The pids of all running workers, including draining ones."""
        return (*(worker.pid for worker in self._workers if worker.pid), *self._predecessors.pids)

    async def start(self) -> None:
        """Start all workers at once, then tell their predecessors to stop accepting."""
        await asyncio.to_thread(self._before_start)
        await asyncio.gather(*(worker.start() for worker in self._workers))
        self._predecessors.stop_accepting()

    async def keep_alive(self, on_change: Callable[[str], None]) -> None:
        await asyncio.gather(*(worker.keep_alive(on_change) for worker in self._workers))

    async def stop(self, force: asyncio.Event) -> None:
        """Stop all workers at once; they tell their clients that the platform shuts down."""
        stops = [worker.stop(signal.SIGTERM, force, timeout=STOP_TIMEOUT) for worker in self._workers]
        await asyncio.gather(*stops, self._predecessors.stop(force))

    def drain(self) -> None:
        """Tell the workers to exit with their last connection, and do not wait for them."""
        for worker in self._workers:
            worker.send_signal(signal.SIGQUIT)
        self._predecessors.stop_accepting()
