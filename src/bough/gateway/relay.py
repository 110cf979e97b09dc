"""Copying both ways between a client and its compute.

What one side cannot take waits here, a piece at most, and the other side is not read meanwhile; so memory
stays flat however slow a reader is. All connections of a worker share one room to read into. Nothing is read of
what goes by, but for a database that is full: there errors get a hint, when they stand between whole messages.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bough.gateway.activity import TrafficCounters
from bough.gateway.channel import Channel, ConnectionLost
from bough.gateway.wire.hints import add_hints, may_have_read_only_error
from bough.gateway.wire.messages import READY_FOR_QUERY_HEADER, READY_FOR_QUERY_LENGTH, TERMINATE

_BUFFER = bytearray(65536)
_BUFFER_VIEW = memoryview(_BUFFER)
_TERMINATE_MESSAGE = TERMINATE + b"\0\0\0\x04"
_TERMINATE_LENGTH = len(_TERMINATE_MESSAGE)
HALF_CLOSED_SECONDS = 10.0  # a client that finished gets its answer for so long; then its query is cancelled


@dataclass(slots=True, kw_only=True)
class RelayCallbacks:
    """What the relay asks for and cannot do itself."""

    on_abandoned: Callable[[], None]  # the query that nobody waits for any longer
    on_end: Callable[[], None]
    backend_died_error: bytes  # to a client whose compute died without a word


class Relay:
    __slots__ = (
        "_client",
        "_client_is_done",
        "_compute",
        "_has_request",
        "_has_terminated",
        "_hooks",
        "_is_over",
        "_is_ready",
        "_loop",
        "_tally",
        "_timer",
        "_to_client",
        "_to_compute",
    )

    def __init__(self, client: Channel, compute: Channel, counters: TrafficCounters, callbacks: RelayCallbacks) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = client
        self._compute = compute
        self._tally = counters
        self._hooks = callbacks
        self._to_client = b""  # what it could not take yet
        self._to_compute = b""
        self._is_ready = True  # the compute has given a whole answer, as far as one can see without reading it
        self._has_request = False  # the client has said something since
        self._has_terminated = False
        self._client_is_done = False  # it will say nothing more
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._loop.add_reader(self._client.fd, self._from_client)
        self._loop.add_reader(self._compute.fd, self._from_compute)
        self._from_client()  # TLS may have read more than was asked for

    def stop(self, error: bytes) -> None:
        """End it from our side."""
        if self._is_between_messages:
            self._send_to_client(error)
        self._client_lost()

    @property
    def is_idle(self) -> bool:
        return self._is_between_messages and not self._has_request

    @property
    def _is_between_messages(self) -> bool:
        return self._is_ready and not self._to_client

    @property
    def _is_busy(self) -> bool:
        return not self._is_ready or (self._has_request and not self._has_terminated)

    def _from_client(self) -> None:
        try:
            count = self._client.receive(_BUFFER_VIEW)
        except ConnectionLost:
            return self._client_lost()
        if count is None:
            return None
        if count == 0:
            return self._client_finished()
        self._tally.bytes_in += count
        self._has_request = True
        self._has_terminated = count >= _TERMINATE_LENGTH and _BUFFER.startswith(
            _TERMINATE_MESSAGE, count - _TERMINATE_LENGTH
        )
        return self._pass_on(_BUFFER_VIEW[:count])

    def _pass_on(self, said: memoryview | bytes) -> None:
        """To the compute."""
        try:
            sent = self._compute.send(said)
        except ConnectionLost:
            return  # its last words are still to be read
        if sent < len(said):
            self._to_compute = bytes(said[sent:])
            self._loop.remove_reader(self._client.fd)
            self._loop.add_writer(self._compute.fd, self._flush_compute)

    def _from_compute(self) -> None:
        try:
            count = self._compute.receive(_BUFFER_VIEW)
        except ConnectionLost:
            return self._compute_finished()
        if count is None:
            return None
        if count == 0:
            return self._compute_finished()
        was_ready = self._is_ready
        self._is_ready = count >= READY_FOR_QUERY_LENGTH and _BUFFER.startswith(
            READY_FOR_QUERY_HEADER, count - READY_FOR_QUERY_LENGTH
        )
        self._has_request = False
        said: memoryview | bytes = _BUFFER_VIEW[:count]
        if self._tally.read_only_hint and was_ready and may_have_read_only_error(_BUFFER, count):
            said = add_hints(bytes(said), self._tally.read_only_hint) or said
            count = len(said)
        self._tally.bytes_out += count
        try:
            sent = self._client.send(said)
        except ConnectionLost:
            return self._client_lost()
        if sent < count:
            self._to_client = bytes(said[sent:])
            self._loop.remove_reader(self._compute.fd)
            self._loop.add_writer(self._client.fd, self._flush_client)
        return None

    def _flush_compute(self) -> None:
        try:
            sent = self._compute.send(self._to_compute)
        except ConnectionLost:
            sent = len(self._to_compute)
        self._to_compute = self._to_compute[sent:]
        if not self._to_compute:
            self._loop.remove_writer(self._compute.fd)
            self._loop.add_reader(self._client.fd, self._from_client)

    def _flush_client(self) -> None:
        try:
            sent = self._client.send(self._to_client)
        except ConnectionLost:
            return self._client_lost()
        self._to_client = self._to_client[sent:]
        if self._to_client:
            return None
        self._loop.remove_writer(self._client.fd)
        self._loop.add_reader(self._compute.fd, self._from_compute)
        return None

    def _client_finished(self) -> None:
        """It will say nothing more, and may still want its answer."""
        self._client_is_done = True
        self._loop.remove_reader(self._client.fd)
        self._compute.shutdown_write()
        self._timer = self._loop.call_later(HALF_CLOSED_SECONDS, self._client_lost)

    def _client_lost(self) -> None:
        if self._is_busy:
            self._hooks.on_abandoned()
        self._end()

    def _compute_finished(self) -> None:
        """All it said has been passed on: it is not read while the client has not taken the last piece."""
        if self._is_between_messages and not self._client_is_done and not self._has_terminated:
            self._send_to_client(self._hooks.backend_died_error)
        self._end()

    def _send_to_client(self, words: bytes) -> None:
        try:
            self._client.send(words)
        except ConnectionLost:
            return

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for fd in (self._client.fd, self._compute.fd):
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
        self._client.shutdown_write()
        self._client.close()
        self._compute.close()
        self._hooks.on_end()
