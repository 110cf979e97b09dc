"""The supervisor: starts the platform's processes, restarts them when they die, and stops them.

SIGTERM and SIGINT stop the platform and its computes. SIGHUP restarts the platform and SIGQUIT stops it; both leave
the computes running, and the next start adopts them. A second SIGTERM or SIGINT kills what still runs.

When everything stops, the gateway workers stop first. Otherwise clients keep their connections: at a restart the
workers serve until the next program has started its own, and after SIGQUIT they exit with their last connection.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from bough.supervisor.gateway_processes import GatewayProcesses
from bough.supervisor.processes import ChildProcess

HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class ShutdownMode(Enum):
    DOWN = "down"  # stops computes too
    KEEP_COMPUTES = "leave"  # keeps computes running
    RESTART = "restart"  # keeps computes running and executes the installed program again

    @property
    def control_signal(self) -> signal.Signals:
        """The signal that stops control in this mode."""
        return signal.SIGTERM if self is ShutdownMode.DOWN else signal.SIGQUIT


class Supervisor:
    """Calls `on_change` with a message whenever a child dies or is restarted."""

    def __init__(
        self,
        control: ChildProcess,
        gateways: GatewayProcesses,
        on_change: Callable[[str], None],
        *,
        is_initialized: bool = False,
    ) -> None:
        """`is_initialized`: control has already created what the gateway needs, which it does at its first start."""
        self._control = control
        self._gateways = gateways
        self._on_change = on_change
        self._is_initialized = is_initialized
        self._force = asyncio.Event()
        self._shutdown_mode: asyncio.Future[ShutdownMode] = asyncio.get_running_loop().create_future()
        self._had_terminal = os.isatty(0)

    async def run(self, on_ready: Callable[[], None], on_stopping: Callable[[ShutdownMode], None]) -> ShutdownMode:
        """Keep the children running until a signal arrives. Raise the error of a failed first start."""
        self._install_signal_handlers()
        keeping = asyncio.create_task(self._start_and_keep(on_ready))
        either: set[asyncio.Future[Any]] = {keeping, self._shutdown_mode}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done() and not self._shutdown_mode.done():
            await self._stop(ShutdownMode.KEEP_COMPUTES)
            await keeping
        keeping.cancel()
        mode = await self._shutdown_mode
        on_stopping(mode)
        await self._stop(mode)
        return mode

    async def _start_and_keep(self, on_ready: Callable[[], None]) -> None:
        if self._is_initialized:  # clients that connect before control is ready wait for it
            await asyncio.gather(self._control.start(), self._gateways.start())
        else:
            await self._control.start()
            await self._gateways.start()
        on_ready()
        await asyncio.gather(self._control.keep_alive(self._on_change), self._gateways.keep_alive(self._on_change))

    async def _stop(self, mode: ShutdownMode) -> None:
        if mode is ShutdownMode.DOWN:
            await self._gateways.stop(self._force)
        elif mode is ShutdownMode.KEEP_COMPUTES:
            self._gateways.drain()
        await self._control.stop(mode.control_signal, self._force)

    def _install_signal_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for signal_number in HANDLED_SIGNALS:
            loop.add_signal_handler(signal_number, partial(self._on_signal, signal_number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)

    def _on_signal(self, signal_number: signal.Signals) -> None:
        if self._shutdown_mode.done():
            if signal_number in {signal.SIGTERM, signal.SIGINT}:
                self._force.set()
            return
        if signal_number == signal.SIGHUP and not self._lost_terminal():
            self._shutdown_mode.set_result(ShutdownMode.RESTART)
        elif signal_number == signal.SIGQUIT:
            self._shutdown_mode.set_result(ShutdownMode.KEEP_COMPUTES)
        else:
            self._shutdown_mode.set_result(ShutdownMode.DOWN)

    def _lost_terminal(self) -> bool:
        """A closed terminal window also sends SIGHUP; it means Ctrl-C, not restart."""
        if not self._had_terminal:
            return False
        try:
            os.tcgetpgrp(0)
        except OSError:
            return True
        return False
