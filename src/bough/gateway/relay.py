"""Copies bytes in both directions between a client and its compute.

When one side cannot take more, the relay keeps at most one buffer for it and stops reading from the other side,
so memory use is bounded for slow readers. All connections of a worker share one read buffer. The relay does not
parse the bytes, except for a branch over its storage limit: there it adds a hint to errors of rejected writes.
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
HALF_CLOSED_SECONDS = 10.0  # how long a half-closed client gets replies before its query is canceled


@dataclass(slots=True, kw_only=True)
class RelayCallbacks:
    """What the relay needs from its owner."""

    on_abandoned: Callable[[], None]  # cancels the running query of a client that has gone
    on_end: Callable[[], None]
    backend_died_error: bytes  # sent if the compute ends without an error of its own


class Relay:
    __slots__ = (
        "_callbacks",
        "_client",
        "_client_has_finished",
        "_compute",
        "_counters",
        "_has_ended",
        "_has_request",
        "_has_terminated",
        "_is_ready",
        "_loop",
        "_timer",
        "_to_client",
        "_to_compute",
    )

    def __init__(self, client: Channel, compute: Channel, counters: TrafficCounters, callbacks: RelayCallbacks) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = client
        self._compute = compute
        self._counters = counters
        self._callbacks = callbacks
        self._to_client = b""  # bytes that it could not take yet
        self._to_compute = b""
        self._is_ready = True  # the last bytes from the compute end with what looks like a ReadyForQuery
        self._has_request = False  # the client has sent something since
        self._has_terminated = False
        self._client_has_finished = False  # it has closed its sending side
        self._has_ended = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._loop.add_reader(self._client.fd, self._on_client_readable)
        self._loop.add_reader(self._compute.fd, self._on_compute_readable)
        self._on_client_readable()  # TLS may have buffered data already

    def stop(self, error: bytes) -> None:
        """End the session; send this error first if the client is between messages."""
        if self._is_between_messages:
            self._send_to_client(error)
        self._on_client_lost()

    @property
    def is_idle(self) -> bool:
        return self._is_between_messages and not self._has_request

    @property
    def _is_between_messages(self) -> bool:
        return self._is_ready and not self._to_client

    @property
    def _is_busy(self) -> bool:
        return not self._is_ready or (self._has_request and not self._has_terminated)

    def _on_client_readable(self) -> None:
        try:
            count = self._client.receive(_BUFFER_VIEW)
        except ConnectionLost:
            return self._on_client_lost()
        if count is None:
            return None
        if count == 0:
            return self._on_client_finished()
        self._counters.bytes_in += count
        self._has_request = True
        self._has_terminated = count >= _TERMINATE_LENGTH and _BUFFER.startswith(
            _TERMINATE_MESSAGE, count - _TERMINATE_LENGTH
        )
        return self._send_to_compute(_BUFFER_VIEW[:count])

    def _send_to_compute(self, data: memoryview | bytes) -> None:
        try:
            sent = self._compute.send(data)
        except ConnectionLost:
            return  # its last messages can still be read
        if sent < len(data):
            self._to_compute = bytes(data[sent:])
            self._loop.remove_reader(self._client.fd)
            self._loop.add_writer(self._compute.fd, self._flush_compute)

    def _on_compute_readable(self) -> None:
        try:
            count = self._compute.receive(_BUFFER_VIEW)
        except ConnectionLost:
            return self._on_compute_finished()
        if count is None:
            return None
        if count == 0:
            return self._on_compute_finished()
        was_ready = self._is_ready
        self._is_ready = count >= READY_FOR_QUERY_LENGTH and _BUFFER.startswith(
            READY_FOR_QUERY_HEADER, count - READY_FOR_QUERY_LENGTH
        )
        self._has_request = False
        data: memoryview | bytes = _BUFFER_VIEW[:count]
        if self._counters.read_only_hint and was_ready and may_have_read_only_error(_BUFFER, count):
            data = add_hints(bytes(data), self._counters.read_only_hint) or data
            count = len(data)
        self._counters.bytes_out += count
        try:
            sent = self._client.send(data)
        except ConnectionLost:
            return self._on_client_lost()
        if sent < count:
            self._to_client = bytes(data[sent:])
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
            self._loop.add_reader(self._client.fd, self._on_client_readable)

    def _flush_client(self) -> None:
        try:
            sent = self._client.send(self._to_client)
        except ConnectionLost:
            return self._on_client_lost()
        self._to_client = self._to_client[sent:]
        if self._to_client:
            return None
        self._loop.remove_writer(self._client.fd)
        self._loop.add_reader(self._compute.fd, self._on_compute_readable)
        return None

    def _on_client_finished(self) -> None:
        """The client has closed its sending side, but may still read replies."""
        self._client_has_finished = True
        self._loop.remove_reader(self._client.fd)
        self._compute.shutdown_write()
        self._timer = self._loop.call_later(HALF_CLOSED_SECONDS, self._on_client_lost)

    def _on_client_lost(self) -> None:
        if self._is_busy:
            self._callbacks.on_abandoned()
        self._end()

    def _on_compute_finished(self) -> None:
        """All bytes of the compute have been sent: it is not read while the client is blocked."""
        if self._is_between_messages and not self._client_has_finished and not self._has_terminated:
            self._send_to_client(self._callbacks.backend_died_error)
        self._end()

    def _send_to_client(self, error: bytes) -> None:
        try:
            self._client.send(error)
        except ConnectionLost:
            return

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        for fd in (self._client.fd, self._compute.fd):
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
        self._client.shutdown_write()
        self._client.close()
        self._compute.close()
        self._callbacks.on_end()
