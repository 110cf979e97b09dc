"""A client of a pooled host: it has a server connection only while a transaction is open."""

from collections.abc import Callable, Mapping

from bough.gateway.activity import TrafficCounters
from bough.gateway.channel import Channel, is_disconnected
from bough.gateway.errors import QUERY_CANCELED
from bough.gateway.pooling.client_transport import CLIENT_BLOCKED, WAITING, ClientTransport
from bough.gateway.pooling.frontend_messages import FLUSH, TERMINATE
from bough.gateway.pooling.pool import Pool
from bough.gateway.pooling.replay import is_single_transaction
from bough.gateway.pooling.requests import RequestStream
from bough.gateway.pooling.server_connection import ServerConnection
from bough.gateway.pooling.translation import MessageTranslator
from bough.gateway.wire import messages
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.hints import add_hint
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError

_CHECK_AFTER_SECONDS = 0.02  # a client that waited longer may have disconnected
_NEEDS_NO_SERVER = frozenset((TERMINATE, FLUSH))
_READY_IDLE = messages.READY_FOR_QUERY_HEADER + b"I"


class PooledClient(ClientTransport):
    __slots__ = (
        "_on_end",
        "_pool",
        "_replay_buffer",
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
        super().__init__(channel, counters)
        self._pool = pool
        self._on_end = on_end
        self.requests = RequestStream(pool.catalog)
        self.unnamed_statement = self.requests.translator.unnamed_statement
        self.application_name = application_name
        self.session_settings: Mapping[bytes, bytes] = {}
        self.reported_parameters = pool.get_greeting(application_name)
        self.server: ServerConnection | None = None
        self.last_server: ServerConnection | None = None
        self.waiting_since = 0.0
        self.idle_since = self._loop.time()
        self.pending_input = b""  # received while it has no server
        self._replay_buffer = b""  # the first messages to its server, while they may have to be sent again

    def encode_greeting(self, backend_key_data: bytes) -> bytes:
        """Encode the greeting of Postgres, with a cancel key of the gateway."""
        return messages.AUTHENTICATION_OK + self.reported_parameters.encode() + backend_key_data + _READY_IDLE

    @property
    def is_idle(self) -> bool:
        return self.server is None and not self._writer.unsent

    def stop(self, error: bytes) -> None:
        """End the session; send this error first if the client is idle."""
        if self.server is None and not self._writer.unsent:
            self.write(error)
        self._on_lost()

    @property
    def translator(self) -> MessageTranslator:
        return self.requests.translator

    @property
    def is_waiting(self) -> bool:
        return self._reader.is_blocked(WAITING) and self.server is None

    # Messages from the client.

    def _handle_input(self, data: bytes | bytearray, count: int, view: memoryview) -> None:
        requests = self.requests
        try:
            if self.server is None:
                if count == HEADER_LENGTH and requests.is_at_message_boundary and data[0] in _NEEDS_NO_SERVER:
                    return self._on_lost() if data[0] == TERMINATE else None
                if not requests.needs_server(data, count):
                    return requests.buffer(data[:count])
                if not self._pool.assign_server(self):
                    self.pending_input = bytes(data[:count])
                    return self._reader.block(WAITING)
            return self._forward(data, count, view)
        except ProtocolError as error:
            return self.disconnect(ErrorResponse(sqlstate=error.sqlstate, message=str(error)).encode())

    def _forward(self, data: bytes | bytearray, count: int, view: memoryview) -> None:
        server, requests = self.server, self.requests
        assert server is not None
        is_first = not server.send_count and requests.is_at_message_boundary
        out = requests.process(data, count, server.pending_replies)
        if requests.deferred:
            self.pending_input, requests.deferred = requests.deferred, b""
            self._reader.block(WAITING)
        self._replay_buffer = bytes(view[:count]) if is_first and requests.is_at_message_boundary else b""
        if out is None:
            server.send(view[:count])
        elif out:
            server.send(out)
        if requests.has_terminated:
            self._on_finished()
        elif not server.pending_replies.expected:
            server.release_if_done()  # Postgres sends no reply

    # Calls from its server connection.

    def add_hint(self, error: bytes) -> bytes | None:
        hint = self._counters.read_only_hint
        return add_hint(error, hint) if hint else None

    def on_server_ready(self) -> None:
        data, self.pending_input = self.pending_input, b""
        if data and self._loop.time() - self.waiting_since > _CHECK_AFTER_SECONDS and is_disconnected(self._channel.fd):
            return self._on_lost()
        self._reader.unblock(WAITING)
        if data:
            self._handle_input(data, len(data), memoryview(data))
        return None

    def set_session_settings(self, settings: Mapping[bytes, bytes]) -> None:
        self.session_settings = settings
        self.requests.translator.prepared.context = frozenset(settings.items())

    def detach(self) -> None:
        self.last_server, self.server = self.server, None
        self._replay_buffer = b""
        self.idle_since = self._loop.time()
        if self._timer is not None:  # the client is half-closed
            self._loop.call_soon(self._on_lost)

    @property
    def has_replay(self) -> bool:
        return bool(self._replay_buffer)

    def can_replay(self) -> bool:
        return bool(self._replay_buffer) and is_single_transaction(self._replay_buffer, self.translator.prepared)

    def replay(self) -> None:
        self.server = None
        self.pending_input = self._replay_buffer or self.pending_input
        self._replay_buffer = b""
        self._reader.block(WAITING)
        if self.pending_input:
            self._pool.enqueue(self, at_front=True)

    def disconnect(self, error: bytes) -> None:
        """Send this error and end the session."""
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
        self._reader.unblock(WAITING)
        if rest:
            self._handle_input(rest, len(rest), memoryview(rest))
        return None

    def _on_flushed(self) -> None:
        self._reader.unblock(CLIENT_BLOCKED)
        if self.server is not None:
            self.server.resume()

    # End of the session.

    def _on_finished(self) -> None:
        if self.has_finished_sending:
            return None
        if not self.pending_input and (self.server is None or not self.server.pending_replies.expected):
            return self._on_lost()
        return self._half_close()

    def _on_lost(self) -> None:
        self._abandon()
        self._end()

    def _abandon(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.abandon()
        elif self.pending_input:
            self._pool.dequeue(self)

    def _on_closed(self) -> None:
        self._pool.remove_client(self)
        self._on_end()
