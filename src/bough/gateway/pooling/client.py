"""A client at a pooled host: it has a member while a transaction is open, and nothing but itself between them."""

import asyncio
from collections.abc import Callable, Mapping

from bough.gateway.activity import TrafficCounters
from bough.gateway.channel import Channel, ConnectionLost, is_disconnected
from bough.gateway.errors import QUERY_CANCELED
from bough.gateway.pooling import repeating
from bough.gateway.pooling.pool import Pool
from bough.gateway.pooling.reader import ClientReader
from bough.gateway.pooling.requests import HEADER_LENGTH, RequestStream
from bough.gateway.pooling.server_connection import ServerConnection
from bough.gateway.pooling.translation import FLUSH, MessageTranslator
from bough.gateway.pooling.writer import BufferedWriter
from bough.gateway.wire import messages
from bough.gateway.wire.hints import add_hint
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError

_LONG = 0.02  # seconds to wait; who waited longer may be gone
HALF_CLOSED_SECONDS = 10.0  # a client that finished gets its answers for so long
_BUFFER = bytearray(65536)
_BUFFER_VIEW = memoryview(_BUFFER)
_TERMINATE = messages.TERMINATE[0]
_NEEDS_NO_SERVER = frozenset((_TERMINATE, FLUSH))  # messages that need no member
_READY_IDLE = messages.READY_FOR_QUERY_HEADER + b"I"

# Why it is not read.
_WAITING, _SERVER_BLOCKED, _CLIENT_BLOCKED, _FINISHED = 1, 2, 4, 8


class PooledClient:
    __slots__ = (
        "_channel",
        "_counters",
        "_ended",
        "_is_over",
        "_loop",
        "_pool",
        "_reader",
        "_replay_buffer",
        "_timer",
        "_writer",
        "application_name",
        "idle_since",
        "last_server",
        "pending_input",
        "reported_parameters",
        "requests",
        "server",
        "session_settings",
        "unnamed_statement",
        "waiting_since",
    )

    def __init__(
        self,
        channel: Channel,
        pool: Pool,
        application_name: bytes,
        counters: TrafficCounters,
        on_end: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._pool = pool
        self._counters = counters
        self._ended = on_end
        self.requests = RequestStream(pool.catalog)
        self.unnamed_statement = self.requests.translation.unnamed_statement
        self.application_name = application_name
        self.session_settings: Mapping[bytes, bytes] = {}
        self.reported_parameters = pool.get_greeting(application_name)
        self.server: ServerConnection | None = None
        self.last_server: ServerConnection | None = None  # the one it had before
        self.waiting_since = 0.0  # to wait
        self.idle_since = self._loop.time()  # it has been idle
        self.pending_input = b""  # what it said while it has no member
        self._replay_buffer = b""  # what it said to its member first, while it may have to be said again
        self._writer = BufferedWriter(channel, self._flushed, self._unreachable)
        self._reader = ClientReader(channel.fd, self._readable)
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def encode_greeting(self, backend_key_data: bytes) -> bytes:
        """As Postgres would greet it, with a cancel key of ours."""
        return messages.AUTHENTICATION_OK + self.reported_parameters.encode() + backend_key_data + _READY_IDLE

    def start(self) -> None:
        self._reader.start()
        self._readable()  # TLS may have read more than was asked for

    @property
    def is_idle(self) -> bool:
        return self.server is None and not self._writer.unsent

    def stop(self, error: bytes) -> None:
        """End it from our side."""
        if self.server is None and not self._writer.unsent:
            self.write(error)
        self._lost()

    @property
    def translation(self) -> MessageTranslator:
        return self.requests.translation

    @property
    def has_finished_sending(self) -> bool:
        """It will say nothing more."""
        return self._reader.is_blocked(_FINISHED)

    @property
    def is_waiting(self) -> bool:
        return self._reader.is_blocked(_WAITING) and self.server is None

    # What it says.

    def _readable(self) -> None:
        try:
            count = self._channel.receive(_BUFFER_VIEW)
        except ConnectionLost:
            return self._lost()
        if count is None:
            return None
        if count == 0:
            return self._finished()
        self._counters.bytes_in += count
        return self._handle_input(_BUFFER, count, _BUFFER_VIEW)

    def _handle_input(self, data: bytes | bytearray, count: int, view: memoryview) -> None:
        requests = self.requests
        try:
            if self.server is None:
                if count == HEADER_LENGTH and requests.is_at_message_boundary and data[0] in _NEEDS_NO_SERVER:
                    return self._lost() if data[0] == _TERMINATE else None
                if not requests.needs_server(data, count):
                    return requests.buffer(data[:count])
                if not self._pool.assign_server(self):
                    self.pending_input = bytes(data[:count])
                    return self._reader.block(_WAITING)
            return self._forward(data, count, view)
        except ProtocolError as malformed:
            return self.disconnect(ErrorResponse(sqlstate=malformed.sqlstate, message=str(malformed)).encode())

    def _forward(self, data: bytes | bytearray, count: int, view: memoryview) -> None:
        member, requests = self.server, self.requests
        assert member is not None
        is_first = not member.send_count and requests.is_at_message_boundary
        out = requests.process(data, count, member.pending_replies)
        if requests.deferred:
            self.pending_input, requests.deferred = requests.deferred, b""
            self._reader.block(_WAITING)
        self._replay_buffer = bytes(view[:count]) if is_first and requests.is_at_message_boundary else b""
        if out is None:
            member.send(view[:count])
        elif out:
            member.send(out)
        if requests.has_terminated:
            self._finished()
        elif not member.pending_replies.expected:
            member.release_if_done()  # Postgres has nothing to say to that

    # What its member has to tell it.

    def write(self, data: memoryview | bytes) -> bool:
        self._counters.bytes_out += len(data)
        if self._writer.write(data):
            return True
        self._reader.block(_CLIENT_BLOCKED)
        return False

    def add_hint(self, error: bytes) -> bytes | None:
        hint = self._counters.read_only_hint
        return add_hint(error, hint) if hint else None

    def on_server_ready(self) -> None:
        held, self.pending_input = self.pending_input, b""
        if held and self._loop.time() - self.waiting_since > _LONG and is_disconnected(self._channel.fd):
            return self._lost()
        self._reader.unblock(_WAITING)
        if held:
            self._handle_input(held, len(held), memoryview(held))
        return None

    def set_session_settings(self, settings: Mapping[bytes, bytes]) -> None:
        self.session_settings = settings
        self.requests.translation.prepared.context = frozenset(settings.items())

    def pause_reading(self) -> None:
        self._reader.block(_SERVER_BLOCKED)

    def resume_reading(self) -> None:
        self._reader.unblock(_SERVER_BLOCKED)

    def detach(self) -> None:
        self.last_server, self.server = self.server, None
        self._replay_buffer = b""
        self.idle_since = self._loop.time()
        if self._timer is not None:  # it is done
            self._loop.call_soon(self._lost)

    @property
    def has_replay(self) -> bool:
        return bool(self._replay_buffer)

    def can_replay(self) -> bool:
        return bool(self._replay_buffer) and repeating.is_single_transaction(self._replay_buffer, self.translation)

    def replay(self) -> None:
        self.server = None
        self.pending_input = self._replay_buffer or self.pending_input
        self._replay_buffer = b""
        self._reader.block(_WAITING)
        if self.pending_input:
            self._pool.enqueue(self, at_front=True)

    def disconnect(self, error: bytes) -> None:
        """It cannot go on; these are the last words to it."""
        self._abandon()
        if error:
            self.write(error)
        self._end()

    async def cancel(self) -> None:
        if self.server is not None:
            await self.server.cancel()
        elif self.is_waiting:
            self._pool.dequeue(self)
            self._cancel_pending_input()

    def _cancel_pending_input(self) -> None:
        rest = self.requests.drop_first_batch(self.pending_input)
        if rest is None:
            return self.disconnect(QUERY_CANCELED.encode())
        self.pending_input = b""
        self.write(QUERY_CANCELED.encode() + _READY_IDLE)
        self._reader.unblock(_WAITING)
        if rest:
            self._handle_input(rest, len(rest), memoryview(rest))
        return None

    def _flushed(self) -> None:
        self._reader.unblock(_CLIENT_BLOCKED)
        if self.server is not None:
            self.server.resume()

    # The end.

    def _finished(self) -> None:
        """It will say nothing more, and may still want its answers."""
        if self.has_finished_sending:
            return None
        if not self.pending_input and (self.server is None or not self.server.pending_replies.expected):
            return self._lost()
        self._reader.block(_FINISHED)
        self._timer = self._loop.call_later(HALF_CLOSED_SECONDS, self._lost)
        return None

    def _unreachable(self) -> None:
        self._loop.call_soon(self._lost)

    def _lost(self) -> None:
        self._abandon()
        self._end()

    def _abandon(self) -> None:
        member, self.server = self.server, None
        if member is not None:
            member.abandon()
        elif self.pending_input:
            self._pool.dequeue(self)

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._reader.close()
        self._writer.stop()
        self._channel.shutdown_write()
        self._channel.close()
        self._pool.remove_client(self)
        self._ended()
