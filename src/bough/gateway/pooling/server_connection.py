"""A server connection of a pool: assigned to one client for a transaction, then released.

It stays reserved for its last client for a moment. For any other client its session is reset: the reset goes out
in front of the client's messages. The settings of the client's session are restored, and confirmed, before any of
its messages are sent. If no reset is sufficient, the server connection is closed.
"""

import struct
from typing import Protocol

from bough.gateway import cancel
from bough.gateway.backend import Backend
from bough.gateway.channel import ConnectionLost
from bough.gateway.errors import BACKEND_DIED, malformed_reply_error
from bough.gateway.pooling.extensions import StatefulExtensions
from bough.gateway.pooling.pending_replies import IDLE
from bough.gateway.pooling.pool_client import PoolClient
from bough.gateway.pooling.reported_parameters import ReportedParameters
from bough.gateway.pooling.server_session import NO_QUERY, ServerSession
from bough.gateway.wire.messages import READY_FOR_QUERY_HEADER
from bough.gateway.wire.protocol_error import ProtocolError

_BUFFER = bytearray(65536)
_BUFFER_VIEW = memoryview(_BUFFER)
_BACKEND_BUFFER_BYTES = 8192  # Postgres reads so much from its socket at once
_REPLAY_SECONDS = 0.1  # a longer transaction may have been terminated on purpose
_MAX_UNSOLICITED_BYTES = 256 * 1024  # received while it has no client
# Whatever listens on a compute's socket may send anything.
_MALFORMED_REPLY = (ProtocolError, IndexError, ValueError, struct.error)


class ServerPool(Protocol):
    """The pool of a server connection."""

    extensions: StatefulExtensions

    def release(self, server: "ServerConnection") -> None: ...

    def remove(self, server: "ServerConnection") -> None: ...


class ServerConnection(ServerSession):
    def __init__(
        self,
        backend: Backend,
        reported_parameters: ReportedParameters,
        pool: ServerPool,
        application_name: bytes,
        max_statements: int,
    ) -> None:
        super().__init__(backend, reported_parameters, pool.extensions, application_name, max_statements)
        self._pool = pool
        self.is_retired = False  # closed when it is released
        self.send_count = self._sent_bytes = 0  # since it was assigned
        self.created_at = self.idle_since = self._assigned_at = self._loop.time()
        self._is_lost = False  # Postgres takes no more data
        self._unsolicited_bytes = 0

    @property
    def is_idle_in_transaction(self) -> bool:
        return self.client is not None and self.pending_replies.status != IDLE and not self.pending_replies.expected

    @property
    def is_ending(self) -> bool:
        """Postgres has sent a fatal error. It closes the connection later, and would lose messages sent meanwhile."""
        return bool(self.replies.fatal_error)

    # Assignment to clients.

    def assign(self, client: PoolClient) -> bool:
        """Assign the client; return False if it must wait for `on_server_ready` before it sends."""
        self.client = client
        self.send_count = self._sent_bytes = 0
        self._is_lost = False
        self._unsolicited_bytes = 0
        self._assigned_at = self._loop.time()
        self.replies.is_before_first_reply, self.replies.fatal_error, self.replies.is_admin_shutdown = True, b"", False
        if self.last_client is client and not self.pending_replies.is_dirty:
            return True
        return self._prepare_for(client)

    def send(self, data: memoryview | bytes | bytearray) -> None:
        """Send messages of the client."""
        if self._prefix:
            data = self._prefix + data
            self._prefix = b""
        self.send_count += 1
        self._sent_bytes += len(data)
        if not self._writer.write(data) and self.client is not None:
            self.client.pause_reading()

    def abandon(self) -> None:
        """The client has disconnected, perhaps in the middle of a transaction."""
        if self.is_closed:
            return
        client, self.client, self.last_client = self.client, None, None
        self.resume()
        pending = self.pending_replies
        has_request = bool(pending.expected) or pending.is_unsynced
        if (
            has_request
            or self._prefix
            or self._writer.unsent
            or (client is not None and client.requests.passthrough_bytes)
        ):
            if has_request:
                cancel.schedule_cancel(self.backend)
            self.close()
        elif self._own_query is not NO_QUERY:
            pass  # released when that query is done
        elif pending.status == IDLE:
            self._release()
        else:
            self._roll_back()

    # Messages from Postgres.

    def _on_readable(self) -> None:
        try:
            count = self.backend.channel.receive(_BUFFER_VIEW)
        except ConnectionLost as lost:
            return self._on_end(was_unread=isinstance(lost.__cause__, ConnectionResetError))
        if count is None:
            return None
        if count == 0:
            return self._on_end(was_unread=False)
        out = self._process_replies(count)
        client = self.client
        if client is None and self.is_ending:
            self.close()
        if client is None or self.is_closed:
            return None
        pending = self.pending_replies
        has_more_input = bool(client.pending_input)  # then it keeps the server, and its settings are read later
        if (
            pending.has_changed_settings
            and pending.is_free
            and not (has_more_input or client.requests.passthrough_bytes)
            and out[-6:-1] == READY_FOR_QUERY_HEADER
        ):
            self._withheld_ready = bytes(out[-6:])
            out = out[:-6]
        if out and not client.write(out):
            self.pause()
        if has_more_input and self._own_query is NO_QUERY and pending.has_known_statements:
            client.on_server_ready()
        if pending.status != IDLE:
            self.idle_since = self._loop.time()
            if client.has_finished_sending and not pending.expected:
                client.disconnect(b"")
        else:
            self.release_if_done()
        return None

    def release_if_done(self) -> None:
        client, pending = self.client, self.pending_replies
        if (
            client is None
            or not pending.is_free
            or self._own_query is not NO_QUERY
            or client.requests.passthrough_bytes
        ):
            return
        if pending.has_changed_settings:
            self._read_settings(client)
        elif not self.is_pinned and not self._writer.unsent:
            self.client = None
            if self._is_paused:
                self.resume()
            client.detach()
            if self._pending_cancels:
                self._release()
            else:
                self._pool.release(self)

    def _on_end(self, *, was_unread: bool) -> None:
        client, self.client = self.client, None
        self.close()
        if client is None:
            return
        replies = self.replies
        was_unread = self._is_lost or (was_unread and self._sent_bytes <= _BACKEND_BUFFER_BYTES)
        is_recent = self._loop.time() - self._assigned_at < _REPLAY_SECONDS
        # A session that terminates itself during the reset has run none of the client's messages.
        can_repeat = was_unread or (replies.own_queries > 0 and client.has_replay)
        can_repeat = can_repeat or (replies.is_admin_shutdown and is_recent and client.can_replay())
        if not self.send_count or (
            self.send_count == 1 and can_repeat and (replies.is_before_first_reply or replies.is_admin_shutdown)
        ):
            self.pending_replies.undo_all()
            client.replay()
        else:
            client.disconnect(replies.fatal_error or (BACKEND_DIED.encode() if replies.is_at_message_boundary else b""))

    def _process_replies(self, count: int) -> memoryview | bytes:
        if self.client is None:
            self._unsolicited_bytes += count
            if self._unsolicited_bytes > _MAX_UNSOLICITED_BYTES:
                self.close()
                return b""
        try:
            return self.replies.process(_BUFFER_VIEW, _BUFFER, count)
        except _MALFORMED_REPLY as error:
            self._on_malformed_reply(error)
            return b""

    def _on_malformed_reply(self, error: Exception) -> None:
        client, self.client = self.client, None
        self.close()
        if client is not None:
            client.disconnect(
                malformed_reply_error(str(error)).encode() if self.replies.is_at_message_boundary else b""
            )

    # Callbacks of the transport.

    def _on_flushed(self) -> None:
        if self.client is not None:
            self.client.resume_reading()
            self.release_if_done()

    def _on_unreachable(self) -> None:
        self._is_lost = True  # its last messages can still be read

    def _on_released(self) -> None:
        self._pool.release(self)

    def _on_closed(self) -> None:
        self._pool.remove(self)
