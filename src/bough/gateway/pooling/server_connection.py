"""A server connection of a pool: assigned to one client for a transaction, then released.

It stays reserved for its last client for a moment. For any other client its session is reset: the reset goes out
in front of the client's messages. The settings of the client's session are restored, and confirmed, before any of
its messages are sent. If no reset is sufficient, the server connection is closed.
"""

import struct
from collections.abc import Collection
from typing import Protocol

from bough.gateway import cancel
from bough.gateway.backend import Backend
from bough.gateway.channel import ConnectionLost
from bough.gateway.errors import BACKEND_DIED, malformed_reply_error, session_reset_error
from bough.gateway.pooling import extensions, session_reset
from bough.gateway.pooling.extensions import StatefulExtensions
from bough.gateway.pooling.pending_replies import IDLE, PendingReplies
from bough.gateway.pooling.pool_client import PoolClient
from bough.gateway.pooling.replies import ReplyStream
from bough.gateway.pooling.reported_parameters import APPLICATION_NAME, ReportedParameters
from bough.gateway.pooling.server_transport import ServerTransport
from bough.gateway.wire.messages import READY_FOR_QUERY_HEADER
from bough.gateway.wire.protocol_error import ProtocolError

_BUFFER = bytearray(65536)
_BUFFER_VIEW = memoryview(_BUFFER)
_BACKEND_BUFFER_BYTES = 8192  # Postgres reads so much from its socket at once
_REPLAY_SECONDS = 0.1  # a longer transaction may have been terminated on purpose
_RESEED_SECONDS = 0.1  # a function can set a seed unnoticed; reseeding at every reset would cost a tenth more
_APPLICATION_NAME = APPLICATION_NAME.encode()
_MAX_UNSOLICITED_BYTES = 256 * 1024  # received while it has no client
# Whatever listens on a compute's socket may send anything.
_MALFORMED_REPLY = (ProtocolError, IndexError, ValueError, struct.error)


class ServerPool(Protocol):
    """The pool of a server connection."""

    extensions: StatefulExtensions

    def release(self, server: "ServerConnection") -> None: ...

    def remove(self, server: "ServerConnection") -> None: ...


# The purpose of a query of the gateway's own. Every transaction compares these, and enum members are slow to look up.
_NOTHING = 0
_RESET = 1  # sent in front of the client's messages
_PREPARE = 2  # the client's messages wait for it
_READ_SETTINGS = 3  # the client's ReadyForQuery is withheld until they are known
_RENAME = 4  # a RESET by the client has restored the application_name of the login
_ROLL_BACK = 5
_RESET_IDLE = 6  # without a client


class ServerConnection(ServerTransport):
    def __init__(
        self,
        backend: Backend,
        reported_parameters: ReportedParameters,
        pool: ServerPool,
        application_name: bytes,
        max_statements: int,
    ) -> None:
        super().__init__(backend.without_greeting())
        self._pool = pool
        self.application_name = application_name  # at login
        self.pending_replies = PendingReplies(max_statements)
        self.replies = ReplyStream(self.pending_replies, self)
        self.reported_parameters = reported_parameters
        self.client: PoolClient | None = None
        self.last_client: PoolClient | None = None  # the current or the last client
        self.is_clean = True
        self.is_retired = False  # closed when it is released
        self.is_pinned = False  # the session's settings cannot be read, so it stays with its client
        self.send_count = self._sent_bytes = 0  # since it was assigned
        self.created_at = self.idle_since = self._assigned_at = self._loop.time()
        self._is_lost = False  # Postgres takes no more data
        self._own_query = _NOTHING
        self._reseeded_at = 0.0
        self._is_checking_extensions = False  # together with the own query
        self._withheld_ready = b""  # the client's ReadyForQuery
        self._prefix = b""  # sent in front of the client's next messages
        self._unsolicited_bytes = 0

    @property
    def is_idle_in_transaction(self) -> bool:
        return self.client is not None and self.pending_replies.status != IDLE and not self.pending_replies.expected

    @property
    def is_ending(self) -> bool:
        """Postgres has sent a fatal error. It closes the connection later, and would lose messages sent meanwhile."""
        return bool(self.replies.fatal_error)

    # Assignment to clients.

    def can_serve(self, client: PoolClient) -> bool:
        """Whether a reset is sufficient for this client, or it is not known yet."""
        if self.is_clean or self.last_client is client or not self._pool.extensions.has_stateful:
            return True
        return self._must_check

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
        self.last_client, self.is_pinned = client, False
        self.pending_replies.unnamed_statement, self.pending_replies.has_unnamed = client.unnamed_statement, False
        queries = (
            []
            if self.is_clean
            else self._reset_queries(client.translation.prepared.server_names, checks=self._must_check)
        )
        settings = (
            client.session_settings
            if client.application_name == self.application_name
            else {_APPLICATION_NAME: client.application_name, **client.session_settings}
        )
        if settings:
            queries.append(session_reset.encode_restore_settings(settings))
        self.is_clean = False
        if client.session_settings or self._is_checking_extensions:
            self._send_own_query(_PREPARE, *queries)
            return False
        self._prefix = b"".join(queries)
        self.replies.own_queries = len(queries)
        self._own_query = _RESET if queries else _NOTHING
        if not queries and self.reported_parameters is not client.reported_parameters:
            self._send_parameter_changes(client)
        return True

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
        elif self._own_query is not _NOTHING:
            pass  # released when that query is done
        elif pending.status == IDLE:
            self._release()
        else:
            self._send_own_query(_ROLL_BACK, session_reset.ROLLBACK)

    def reset_idle(self) -> None:
        """Reset the session while it has no client, and release it afterwards."""
        self.last_client = None
        self._send_own_query(_RESET_IDLE, *self._reset_queries((), checks=True))

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
        if has_more_input and self._own_query is _NOTHING and pending.has_known_statements:
            client.on_server_ready()
        if pending.status != IDLE:
            self.idle_since = self._loop.time()
            if client.has_finished_sending and not pending.expected:
                client.disconnect(b"")
        else:
            self.release_if_done()
        return None

    def release_if_done(self) -> None:
        """Release the server connection if the client has no transaction and no pending replies."""
        client, pending = self.client, self.pending_replies
        if (
            client is None
            or not pending.is_free
            or self._own_query is not _NOTHING
            or client.requests.passthrough_bytes
        ):
            return
        if pending.has_changed_settings:
            pending.has_changed_settings = False
            pending.local_sets = 0
            custom = {name for name in client.session_settings if b"." in name} | pending.custom_settings
            self._send_own_query(_READ_SETTINGS, session_reset.encode_read_settings(custom))
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

    def on_statements_discarded(self) -> None:
        self.pending_replies.forget_statements()
        if self.client is not None:
            self.client.translation.forget_all()

    def restore_client_names(self, error: bytes) -> bytes:
        return error if self.client is None else self.client.translation.prepared.restore_client_names(error)

    def add_hint(self, error: bytes) -> bytes | None:
        return None if self.client is None else self.client.add_hint(error)

    def on_parameter_status(self, body: bytes) -> None:
        self.reported_parameters = self.reported_parameters.with_status(body)
        if self.client is not None and self._own_query is _NOTHING:
            self.client.reported_parameters = self.reported_parameters

    def _send_parameter_changes(self, client: PoolClient) -> None:
        client.write(self.reported_parameters.encode_changes(client.reported_parameters))
        client.reported_parameters = self.reported_parameters

    # Queries of the gateway's own.

    def _reset_queries(self, client_statements: Collection[bytes], *, checks: bool) -> list[bytes]:
        """Return the queries that reset the session. With `checks`, the caller must wait for their results."""
        self._is_checking_extensions = checks
        now = self._loop.time()
        reseeds = self.pending_replies.has_set_seed or now - self._reseeded_at > _RESEED_SECONDS
        queries = [session_reset.encode_reset(self.pending_replies.reset(client_statements))]
        if reseeds:
            self._reseeded_at = now
            queries.append(session_reset.encode_reseed())
        if checks:
            self._pool.extensions.mark_checked(now)
            queries.append(extensions.CHECK_QUERY)
        return queries

    @property
    def _must_check(self) -> bool:
        """Whether it is unknown if a reset is sufficient."""
        return self.pending_replies.has_changed_extensions or not self._pool.extensions.is_known(self._loop.time())

    def _learn_extensions(self, rows: list[bytes]) -> bool:
        """Whether the reset was sufficient, if that was checked."""
        if not self._is_checking_extensions:
            return True
        self._is_checking_extensions = False
        has_stateful = extensions.parse_keeps_state(rows)
        self._pool.extensions.set_result(has_stateful=has_stateful)
        return not has_stateful

    def _send_own_query(self, purpose: int, *queries: bytes) -> None:
        self._own_query = purpose
        self.pending_replies.has_unnamed = False  # a simple query destroys it
        self.replies.own_queries = len(queries)
        if not self._writer.write(b"".join(queries)) and self.client is not None:
            self.client.pause_reading()

    def on_own_queries_done(self) -> None:
        purpose, self._own_query = self._own_query, _NOTHING
        error, rows = self.replies.take_own_results()
        client = self.client
        if purpose is _READ_SETTINGS and client is not None:
            self.is_pinned = error is not None
            if error is None:
                client.set_session_settings(session_reset.parse_settings(rows))
            if client.application_name != self.application_name and _APPLICATION_NAME not in client.session_settings:
                self._send_own_query(
                    _RENAME, session_reset.encode_restore_settings({_APPLICATION_NAME: client.application_name})
                )
            else:
                self._send_ready(client)
        elif error is not None or not self._learn_extensions(rows):
            self.client = None
            self.close()
            if client is not None and error is not None:
                client.disconnect(session_reset_error(error).encode())
            elif client is not None:
                client.replay()
        elif client is None:
            self.is_clean = purpose is _RESET_IDLE
            self._release()
        else:
            if self.reported_parameters is not client.reported_parameters:
                self._send_parameter_changes(client)
            if purpose is _PREPARE:
                client.on_server_ready()
            elif purpose is _RENAME:
                self._send_ready(client)

    def _send_ready(self, client: PoolClient) -> None:
        ready, self._withheld_ready = self._withheld_ready, b""
        if ready:
            client.write(ready)
        self.release_if_done()

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
