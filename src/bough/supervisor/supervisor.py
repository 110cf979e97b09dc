"""The supervisor: starts the platform's processes, keeps them, and ends them in one of three ways.

SIGTERM and SIGINT end the platform with its computes. SIGHUP restarts it and SIGQUIT ends it, and
both leave computes running: they are adopted at the next start. A second SIGTERM or SIGINT hurries.
Gateway workers end first when all ends. Otherwise clients keep their connections: at a restart
workers go on until the next program has others, and left alone they end with their last connection.
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
    DOWN = "down"  # computes are stopped too
    KEEP_COMPUTES = "leave"  # computes stay
    RESTART = "restart"  # computes stay, and the supervisor starts again as the program is now

    @property
    def control_signal(self) -> signal.Signals:
        """What control is sent."""
        return signal.SIGTERM if self is ShutdownMode.DOWN else signal.SIGQUIT


class Supervisor:
    """`changed` hears a sentence whenever a child died or came back."""

    def __init__(
        self,
        control: ChildProcess,
        gateways: GatewayProcesses,
        on_change: Callable[[str], None],
        *,
        is_initialized: bool = False,
    ) -> None:
        """`all_is_there`: what control makes for the gateway, at its first start, is made."""
        self._control = control
        self._gateways = gateways
        self._changed = on_change
        self._all_is_there = is_initialized
        self._force = asyncio.Event()
        self._shutdown_mode: asyncio.Future[ShutdownMode] = asyncio.get_running_loop().create_future()
        self._had_terminal = os.isatty(0)

    async def run(self, on_ready: Callable[[], None], on_stopping: Callable[[ShutdownMode], None]) -> ShutdownMode:
        """Keep the children until a signal ends it. Raises the sentence of a first start that failed."""
        self._watch_signals()
        keeping = asyncio.create_task(self._start_and_keep(on_ready))
        either: set[asyncio.Future[Any]] = {keeping, self._shutdown_mode}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done() and not self._shutdown_mode.done():
            await self._stop(ShutdownMode.KEEP_COMPUTES)
            await keeping
        keeping.cancel()
        ending = await self._shutdown_mode
        on_stopping(ending)
        await self._stop(ending)
        return ending

    async def _start_and_keep(self, ready: Callable[[], None]) -> None:
        if self._all_is_there:  # a client that comes before control waits for it
            await asyncio.gather(self._control.start(), self._gateways.start())
        else:
            await self._control.start()
            await self._gateways.start()
        ready()
        await asyncio.gather(self._control.keep_alive(self._changed), self._gateways.keep_alive(self._changed))

    async def _stop(self, ending: ShutdownMode) -> None:
        if ending is ShutdownMode.DOWN:
            await self._gateways.stop(self._force)
        elif ending is ShutdownMode.KEEP_COMPUTES:
            self._gateways.drain()
        await self._control.stop(ending.control_signal, self._force)

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in HANDLED_SIGNALS:
            loop.add_signal_handler(number, partial(self._on_signal, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._shutdown_mode.done():
            if number in {signal.SIGTERM, signal.SIGINT}:
                self._force.set()
            return
        if number == signal.SIGHUP and not self._lost_terminal():
            self._shutdown_mode.set_result(ShutdownMode.RESTART)
        elif number == signal.SIGQUIT:
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
