"""Cancel keys: clients get one of ours, which names the worker that knows the compute's.

A request may arrive at any worker; it goes on to the right one.
"""

import asyncio
import hmac
import itertools
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from bough.errors import PlatformError
from bough.gateway.backend import Backend, NotNow, dialled
from bough.gateway.channel import Lost
from bough.gateway.line import Ended
from bough.gateway.siblings import MOST, Siblings
from bough.gateway.wire import messages
from bough.gateway.wire.startup import CancelRequest

QUESTION = "cancel"
_OWN_BITS = 24  # of the process id; the worker's number is above them, and the sign is never set
_SHORT_KEY, _LONG_KEY = 4, 32  # of protocol 3.0, and from 3.2 on
_SECONDS = 5.0

Cancel = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ticket:
    process: int
    key: bytes

    def encoded(self) -> bytes:
        return messages.backend_key(self.process, self.key)


class Cancels:
    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._counter = itertools.count(secrets.randbelow(1 << _OWN_BITS))
        self._cancels: dict[int, tuple[bytes, Cancel]] = {}

    @contextmanager
    def ticket(self, fire: Cancel, minor: int) -> Iterator[Ticket]:
        """For as long as the connection lasts; `fire` cancels what it does then."""
        process = self._free_process()
        key = secrets.token_bytes(_LONG_KEY if minor >= 2 else _SHORT_KEY)
        self._cancels[process] = key, fire
        try:
            yield Ticket(process, key)
        finally:
            del self._cancels[process]

    async def route(self, request: CancelRequest) -> None:
        """A client never hears what became of it, as with Postgres."""
        number = request.process >> _OWN_BITS
        if number == self._siblings.number:
            await self._fire(request)
        elif number < MOST:
            await self._siblings.ask(number, QUESTION, [request.process, request.key.hex()])

    async def from_sibling(self, body: Any) -> bool:
        process, key = body
        await self._fire(CancelRequest(int(process), bytes.fromhex(key)))
        return True

    def _free_process(self) -> int:
        while True:
            own = next(self._counter) % (1 << _OWN_BITS)
            process = self._siblings.number << _OWN_BITS | own
            if process and process not in self._cancels:
                return process

    async def _fire(self, request: CancelRequest) -> None:
        key, fire = self._cancels.get(request.process, (b"", None))
        if fire is not None and hmac.compare_digest(key, request.key):
            await fire()


_firing: set[asyncio.Task[None]] = set()


def soon(backend: Backend) -> None:
    """Cancel what nobody waits for any longer."""
    task = asyncio.create_task(send(backend))
    _firing.add(task)
    task.add_done_callback(_firing.discard)


async def send(backend: Backend) -> None:
    """Comes back when Postgres has sent its signal."""
    with suppress(NotNow, PlatformError, Ended, Lost, TimeoutError):
        async with asyncio.timeout(_SECONDS), dialled(backend.address) as line:
            try:
                await line.send(messages.cancel(backend.process, backend.key))
                await line.exactly(1)  # never comes: Postgres closes when the signal is sent
            finally:
                line.channel.close()
