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
from bough.gateway.backend import Backend, ComputeNotReady, open_stream
from bough.gateway.channel import ConnectionLost
from bough.gateway.peers import MAX_WORKERS, WorkerPeers
from bough.gateway.stream import StreamEnded
from bough.gateway.wire import messages
from bough.gateway.wire.startup import CancelRequest

CANCEL_REQUEST = "cancel"
_OWN_BITS = 24  # of the process id; the worker's number is above them, and the sign is never set
_SHORT_KEY, _LONG_KEY = 4, 32  # of protocol 3.0, and from 3.2 on
_SECONDS = 5.0

CancelCallback = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CancelKey:
    process_id: int
    secret_key: bytes

    def encode(self) -> bytes:
        return messages.encode_backend_key_data(self.process_id, self.secret_key)


class CancelKeys:
    def __init__(self, peers: WorkerPeers) -> None:
        self._siblings = peers
        self._counter = itertools.count(secrets.randbelow(1 << _OWN_BITS))
        self._cancels: dict[int, tuple[bytes, CancelCallback]] = {}

    @contextmanager
    def register(self, callback: CancelCallback, minor: int) -> Iterator[CancelKey]:
        """For as long as the connection lasts; `fire` cancels what it does then."""
        process = self._new_process_id()
        key = secrets.token_bytes(_LONG_KEY if minor >= 2 else _SHORT_KEY)
        self._cancels[process] = key, callback
        try:
            yield CancelKey(process, key)
        finally:
            del self._cancels[process]

    async def route(self, request: CancelRequest) -> None:
        """A client never hears what became of it, as with Postgres."""
        number = request.process_id >> _OWN_BITS
        if number == self._siblings.number:
            await self._cancel(request)
        elif number < MAX_WORKERS:
            await self._siblings.request(number, CANCEL_REQUEST, [request.process_id, request.secret_key.hex()])

    async def handle_peer_request(self, body: Any) -> bool:
        process, key = body
        await self._cancel(CancelRequest(int(process), bytes.fromhex(key)))
        return True

    def _new_process_id(self) -> int:
        while True:
            own = next(self._counter) % (1 << _OWN_BITS)
            process = self._siblings.number << _OWN_BITS | own
            if process and process not in self._cancels:
                return process

    async def _cancel(self, request: CancelRequest) -> None:
        key, fire = self._cancels.get(request.process_id, (b"", None))
        if fire is not None and hmac.compare_digest(key, request.secret_key):
            await fire()


_cancel_tasks: set[asyncio.Task[None]] = set()


def schedule_cancel(backend: Backend) -> None:
    """Cancel what nobody waits for any longer."""
    task = asyncio.create_task(send_cancel(backend))
    _cancel_tasks.add(task)
    task.add_done_callback(_cancel_tasks.discard)


async def send_cancel(backend: Backend) -> None:
    """Comes back when Postgres has sent its signal."""
    with suppress(ComputeNotReady, PlatformError, StreamEnded, ConnectionLost, TimeoutError):
        async with asyncio.timeout(_SECONDS), open_stream(backend.address) as line:
            try:
                await line.send(messages.encode_cancel_request(backend.process_id, backend.cancel_key))
                await line.read_exactly(1)  # never comes: Postgres closes when the signal is sent
            finally:
                line.channel.close()
