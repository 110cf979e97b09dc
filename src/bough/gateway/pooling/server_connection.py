"""A server connection that belongs to a pool: lent to one client for a transaction, then given back.

It stays the last client's for a while. Whoever else gets it gets it clean: the cleaning goes out in front
of the new client's bytes. Settings that a client brings along are restored, and known to be, before any of
its bytes go out. Where no cleaning is enough it is closed.
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
from bough.gateway.pooling.protocols import PoolClient
from bough.gateway.pooling.replies import ReplyStream
from bough.gateway.pooling.reported_parameters import ReportedParameters
from bough.gateway.pooling.server_transport import ServerTransport
from bough.gateway.wire.messages import READY_FOR_QUERY_HEADER
from bough.gateway.wire.protocol_error import ProtocolError

_BUFFER = bytearray(65536)
_BUFFER_VIEW = memoryview(_BUFFER)
_READ_AT_ONCE = 8192  # bytes that Postgres takes from its socket in one go
_REPLAY_SECONDS = 0.1  # seconds; what ran longer may have been ended on purpose
_RESEED_SECONDS = 0.1  # that a seed may stay which a function has set unseen; to end it each time costs a tenth more
_NAME = b"application_name"
_MAX_UNSOLICITED_BYTES = 256 * 1024  # bytes that it may say while nobody has it
# What a compute says that is not Postgres any longer; whoever took its socket may say anything.
_MALFORMED_REPLY = (ProtocolError, IndexError, ValueError, struct.error)


class ServerPool(Protocol):
    """The pool that it belongs to."""

    extensions: StatefulExtensions

    def release(self, server: "ServerConnection") -> None: ...

    def remove(self, server: "ServerConnection") -> None: ...


# Why we ask it something ourselves. Every transaction compares these, and members of an enumeration are found slowly.
_NOTHING = 0
_RESET = 1  # in front of a client's bytes
_PREPARE = 2  # the client's bytes wait for it
_READ_SETTINGS = 3  # the client is told that its transaction is over when they are known
_RENAME = 4  # a reset has left it with the name of whoever it was opened for
_ROLL_BACK = 5
_RESET_IDLE = 6  # nobody has it


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
        self.application_name = application_name  # application_name that it was opened with
        self.pending_replies = PendingReplies(max_statements)
        self.replies = ReplyStream(self.pending_replies, self)
        self.reported_parameters = reported_parameters
        self.client: PoolClient | None = None
        self.last_client: PoolClient | None = None  # who had it last, or has it
        self.is_clean = True
        self.is_retired = False  # it is closed when it comes back
        self.is_pinned = False  # what the session has set cannot be read; so it stays the client's
        self.send_count = self._sent = 0  # since it was lent: how often, and how many bytes
        self.created_at = self.idle_since = self._assigned_at = self._loop.time()
        self._is_lost = False  # nobody reads what we send
        self._own_query = _NOTHING
        self._reseeded = 0.0
        self._is_checking_extensions = False  # what is asked says too whether cleaning is enough
        self._withheld_ready = b""  # kept back from the client
        self._prefix = b""  # goes out with the client's next bytes
        self._unasked = 0  # bytes that it said while nobody had it

    @property
    def is_idle_in_transaction(self) -> bool:
        return self.client is not None and self.pending_replies.status != IDLE and not self.pending_replies.expected

    @property
    def is_ending(self) -> bool:
        """Postgres has said so. It closes the connection only later; whoever got it meanwhile would lose its words."""
        return bool(self.replies.fatal_error)

    # Lending.

    def can_serve(self, client: PoolClient) -> bool:
        """Whether cleaning is enough for that, as far as it is known."""
        if self.is_clean or self.last_client is client or not self._pool.extensions.has_stateful:
            return True
        return self._must_check

    def assign(self, client: PoolClient) -> bool:
        """Whether the client's bytes may come now; otherwise it is told to go on."""
        self.client = client
        self.send_count = self._sent = 0
        self._is_lost = False
        self._unasked = 0
        self._assigned_at = self._loop.time()
        self.replies.is_before_first_reply, self.replies.fatal_error, self.replies.is_admin_shutdown = True, b"", False
        if self.last_client is client and not self.pending_replies.is_dirty:
            return True
        self.last_client, self.is_pinned = client, False
        self.pending_replies.unnamed_statement, self.pending_replies.has_unnamed = client.unnamed_statement, False
        asked = (
            []
            if self.is_clean
            else self._reset_queries(client.translation.prepared.server_names, checks=self._must_check)
        )
        wanted = (
            client.session_settings
            if client.application_name == self.application_name
            else {_NAME: client.application_name, **client.session_settings}
        )
        if wanted:
            asked.append(session_reset.encode_restore_settings(wanted))
        self.is_clean = False
        if client.session_settings or self._is_checking_extensions:
            self._send_own_query(_PREPARE, *asked)
            return False
        self._prefix = b"".join(asked)
        self.replies.own_queries = len(asked)
        self._own_query = _RESET if asked else _NOTHING
        if not asked and self.reported_parameters is not client.reported_parameters:
            self._send_parameter_changes(client)
        return True

    def send(self, data: memoryview | bytes | bytearray) -> None:
        """From the client that has it."""
        if self._prefix:
            data = self._prefix + data
            self._prefix = b""
        self.send_count += 1
        self._sent += len(data)
        if not self._writer.write(data) and self.client is not None:
            self.client.pause_reading()

    def abandon(self) -> None:
        """The client is gone, whatever it was in the middle of."""
        if self.is_closed:
            return
        client, self.client, self.last_client = self.client, None, None
        self.resume()
        ledger = self.pending_replies
        is_asked = bool(ledger.expected) or ledger.is_unsynced
        if (
            is_asked
            or self._prefix
            or self._writer.unsent
            or (client is not None and client.requests.passthrough_bytes)
        ):
            if is_asked:
                cancel.schedule_cancel(self.backend)
            self.close()
        elif self._own_query is not _NOTHING:
            pass  # it is given back when that is done
        elif ledger.status == IDLE:
            self._release()
        else:
            self._send_own_query(_ROLL_BACK, session_reset.ROLLBACK)

    def reset_idle(self) -> None:
        """Clean it while nobody has it; it is given back afterwards."""
        self.last_client = None
        self._send_own_query(_RESET_IDLE, *self._reset_queries((), checks=True))

    # What it says.

    def _readable(self) -> None:
        try:
            count = self.backend.channel.receive(_BUFFER_VIEW)
        except ConnectionLost as lost:
            return self._on_end(is_unread=isinstance(lost.__cause__, ConnectionResetError))
        if count is None:
            return None
        if count == 0:
            return self._on_end(is_unread=False)
        out = self._process_replies(count)
        client = self.client
        if client is None and self.is_ending:
            self.close()
        if client is None or self.is_closed:
            return None
        ledger = self.pending_replies
        goes_on = bool(client.pending_input)  # then it keeps the member, and its settings are read at the next end
        if (
            ledger.has_changed_settings
            and ledger.is_free
            and not (goes_on or client.requests.passthrough_bytes)
            and out[-6:-1] == READY_FOR_QUERY_HEADER
        ):
            self._withheld_ready = bytes(out[-6:])
            out = out[:-6]
        if out and not client.write(out):
            self.pause()
        if goes_on and self._own_query is _NOTHING and ledger.has_known_statements:
            client.on_server_ready()
        if ledger.status != IDLE:
            self.idle_since = self._loop.time()
            if client.has_finished_sending and not ledger.expected:
                client.disconnect(b"")
        else:
            self.release_if_done()
        return None

    def release_if_done(self) -> None:
        """Give it back, if the client has nothing under way."""
        client, ledger = self.client, self.pending_replies
        if client is None or not ledger.is_free or self._own_query is not _NOTHING or client.requests.passthrough_bytes:
            return
        if ledger.has_changed_settings:
            ledger.has_changed_settings = False
            ledger.local_sets = 0
            custom = {name for name in client.session_settings if b"." in name} | ledger.custom_settings
            self._send_own_query(_READ_SETTINGS, session_reset.encode_read_settings(custom))
        elif not self.is_pinned and not self._writer.unsent:
            self.client = None
            if self._is_paused:
                self.resume()
            client.detach()
            if self._cancels:
                self._release()
            else:
                self._pool.release(self)

    def _on_end(self, *, is_unread: bool) -> None:
        client, self.client = self.client, None
        self.close()
        if client is None:
            return
        replies = self.replies
        is_unread = self._is_lost or (is_unread and self._sent <= _READ_AT_ONCE)
        is_young = self._loop.time() - self._assigned_at < _REPLAY_SECONDS
        # A session that had to be closed ends itself while it is cleaned, and has run nothing of the client's.
        is_undone = is_unread or (replies.own_queries > 0 and client.has_replay)
        is_undone = is_undone or (replies.is_admin_shutdown and is_young and client.can_replay())
        if not self.send_count or (
            self.send_count == 1 and is_undone and (replies.is_before_first_reply or replies.is_admin_shutdown)
        ):
            self.pending_replies.undo_all()
            client.replay()
        else:
            client.disconnect(replies.fatal_error or (BACKEND_DIED.encode() if replies.is_at_message_boundary else b""))

    def _process_replies(self, count: int) -> memoryview | bytes:
        if self.client is None:
            self._unasked += count
            if self._unasked > _MAX_UNSOLICITED_BYTES:
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

    # What we ask it ourselves.

    def _reset_queries(self, own: Collection[bytes], *, checks: bool) -> list[bytes]:
        """For whoever has these `own` statements. Whoever `checks` must wait for the answer before anybody has it."""
        self._is_checking_extensions = checks
        now = self._loop.time()
        reseeds = self.pending_replies.has_set_seed or now - self._reseeded > _RESEED_SECONDS
        asked = [session_reset.encode_reset(self.pending_replies.reset(own))]
        if reseeds:
            self._reseeded = now
            asked.append(session_reset.encode_reseed())
        if checks:
            self._pool.extensions.mark_checked(now)
            asked.append(extensions.CHECK_QUERY)
        return asked

    @property
    def _must_check(self) -> bool:
        """Whether it is not known if cleaning is enough."""
        return self.pending_replies.has_changed_extensions or not self._pool.extensions.is_known(self._loop.time())

    def _learn_extensions(self, rows: list[bytes]) -> bool:
        """Whether cleaning was enough, as far as it was checked."""
        if not self._is_checking_extensions:
            return True
        self._is_checking_extensions = False
        keep_state = extensions.parse_keeps_state(rows)
        self._pool.extensions.set_result(has_stateful=keep_state)
        return not keep_state

    def _send_own_query(self, own: int, *asked: bytes) -> None:
        self._own_query = own
        self.pending_replies.has_unnamed = False  # a simple query destroys it
        self.replies.own_queries = len(asked)
        if not self._writer.write(b"".join(asked)) and self.client is not None:
            self.client.pause_reading()

    def on_own_queries_done(self) -> None:
        own, self._own_query = self._own_query, _NOTHING
        failure, rows = self.replies.take_own_results()
        client = self.client
        if own is _READ_SETTINGS and client is not None:
            self.is_pinned = failure is not None
            if failure is None:
                client.set_session_settings(session_reset.parse_settings(rows))
            if client.application_name != self.application_name and _NAME not in client.session_settings:
                self._send_own_query(_RENAME, session_reset.encode_restore_settings({_NAME: client.application_name}))
            else:
                self._send_ready(client)
        elif failure is not None or not self._learn_extensions(rows):
            self.client = None
            self.close()
            if client is not None and failure is not None:
                client.disconnect(session_reset_error(failure).encode())
            elif client is not None:
                client.replay()
        elif client is None:
            self.is_clean = own is _RESET_IDLE
            self._release()
        else:
            if self.reported_parameters is not client.reported_parameters:
                self._send_parameter_changes(client)
            if own is _PREPARE:
                client.on_server_ready()
            elif own is _RENAME:
                self._send_ready(client)

    def _send_ready(self, client: PoolClient) -> None:
        ready, self._withheld_ready = self._withheld_ready, b""
        if ready:
            client.write(ready)
        self.release_if_done()

    # What becomes of the connection.

    def _flushed(self) -> None:
        if self.client is not None:
            self.client.resume_reading()
            self.release_if_done()

    def _unreachable(self) -> None:
        self._is_lost = True  # the last words are still to be read

    def _on_released(self) -> None:
        self._pool.release(self)

    def _on_closed(self) -> None:
        self._pool.remove(self)
