"""Cancel keys: clients get a key of the gateway's own, whose process id contains the worker's number.

A cancel request may arrive at any worker, which forwards it to the worker that issued the key.
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
_COUNTER_BITS = 24  # of the process id; the worker number is above them, and the sign bit is never set
_SHORT_KEY_BYTES, _LONG_KEY_BYTES = 4, 32  # in protocol 3.0, and from 3.2 on
_CANCEL_TIMEOUT_SECONDS = 5.0

CancelCallback = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CancelKey:
    process_id: int
    secret_key: bytes

    def encode(self) -> bytes:
        return messages.encode_backend_key_data(self.process_id, self.secret_key)


class CancelKeys:
    def __init__(self, peers: WorkerPeers) -> None:
        self._peers = peers
        self._counter = itertools.count(secrets.randbelow(1 << _COUNTER_BITS))
        self._callbacks: dict[int, tuple[bytes, CancelCallback]] = {}

    @contextmanager
    def register(self, callback: CancelCallback, minor: int) -> Iterator[CancelKey]:
        """Register a key for the life of a connection. `callback` cancels its running query."""
        process_id = self._new_process_id()
        key = secrets.token_bytes(_LONG_KEY_BYTES if minor >= 2 else _SHORT_KEY_BYTES)
        self._callbacks[process_id] = key, callback
        try:
            yield CancelKey(process_id, key)
        finally:
            del self._callbacks[process_id]

    async def route(self, request: CancelRequest) -> None:
        """Forward the request. The client gets no reply, as with Postgres."""
        number = request.process_id >> _COUNTER_BITS
        if number == self._peers.number:
            await self._cancel(request)
        elif number < MAX_WORKERS:
            await self._peers.request(number, CANCEL_REQUEST, [request.process_id, request.secret_key.hex()])

    async def handle_peer_request(self, body: Any) -> bool:
        process_id, key = body
        await self._cancel(CancelRequest(int(process_id), bytes.fromhex(key)))
        return True

    def _new_process_id(self) -> int:
        while True:
            count = next(self._counter) % (1 << _COUNTER_BITS)
            process_id = self._peers.number << _COUNTER_BITS | count
            if process_id and process_id not in self._callbacks:
                return process_id

    async def _cancel(self, request: CancelRequest) -> None:
        key, callback = self._callbacks.get(request.process_id, (b"", None))
        if callback is not None and hmac.compare_digest(key, request.secret_key):
            await callback()


_cancel_tasks: set[asyncio.Task[None]] = set()


def schedule_cancel(backend: Backend) -> None:
    """Cancel a query whose client has gone, without waiting."""
    task = asyncio.create_task(send_cancel(backend))
    _cancel_tasks.add(task)
    task.add_done_callback(_cancel_tasks.discard)


async def send_cancel(backend: Backend) -> None:
    """Send a cancel request; return when Postgres has signaled the backend."""
    with suppress(ComputeNotReady, PlatformError, StreamEnded, ConnectionLost, TimeoutError):
        async with asyncio.timeout(_CANCEL_TIMEOUT_SECONDS), open_stream(backend.address) as stream:
            try:
                await stream.send(messages.encode_cancel_request(backend.process_id, backend.cancel_key))
                await stream.read_exactly(1)  # raises StreamEnded: Postgres closes the connection after the signal
            finally:
                stream.channel.close()
