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

from bough.cli.admin.child import Child
from bough.cli.admin.gateways import Gateways

WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Ending(Enum):
    DOWN = "down"  # computes are stopped too
    LEAVE = "leave"  # computes stay
    RESTART = "restart"  # computes stay, and the supervisor starts again as the program is now

    @property
    def signal(self) -> signal.Signals:
        """What control is sent."""
        return signal.SIGTERM if self is Ending.DOWN else signal.SIGQUIT


class Supervisor:
    """`changed` hears a sentence whenever a child died or came back."""

    def __init__(
        self, control: Child, gateways: Gateways, changed: Callable[[str], None], *, all_is_there: bool = False
    ) -> None:
        """`all_is_there`: what control makes for the gateway, at its first start, is made."""
        self._control = control
        self._gateways = gateways
        self._changed = changed
        self._all_is_there = all_is_there
        self._hurry = asyncio.Event()
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._had_terminal = os.isatty(0)

    async def run(self, ready: Callable[[], None], stopping: Callable[[Ending], None]) -> Ending:
        """Keep the children until a signal ends it. Raises the sentence of a first start that failed."""
        self._watch_signals()
        keeping = asyncio.create_task(self._start_and_keep(ready))
        either: set[asyncio.Future[Any]] = {keeping, self._ending}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done() and not self._ending.done():
            await self._stop(Ending.LEAVE)
            await keeping
        keeping.cancel()
        ending = await self._ending
        stopping(ending)
        await self._stop(ending)
        return ending

    async def _start_and_keep(self, ready: Callable[[], None]) -> None:
        if self._all_is_there:  # a client that comes before control waits for it
            await asyncio.gather(self._control.start(), self._gateways.start())
        else:
            await self._control.start()
            await self._gateways.start()
        ready()
        await asyncio.gather(self._control.keep(self._changed), self._gateways.keep(self._changed))

    async def _stop(self, ending: Ending) -> None:
        if ending is Ending.DOWN:
            await self._gateways.end(self._hurry)
        elif ending is Ending.LEAVE:
            self._gateways.leave()
        await self._control.stop(ending.signal, self._hurry)

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in WATCHED:
            loop.add_signal_handler(number, partial(self._heard, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)

    def _heard(self, number: signal.Signals) -> None:
        if self._ending.done():
            if number in {signal.SIGTERM, signal.SIGINT}:
                self._hurry.set()
            return
        if number == signal.SIGHUP and not self._lost_terminal():
            self._ending.set_result(Ending.RESTART)
        elif number == signal.SIGQUIT:
            self._ending.set_result(Ending.LEAVE)
        else:
            self._ending.set_result(Ending.DOWN)

    def _lost_terminal(self) -> bool:
        """A closed terminal window also sends SIGHUP; it means Ctrl-C, not restart."""
        if not self._had_terminal:
            return False
        try:
            os.tcgetpgrp(0)
        except OSError:
            return True
        return False
