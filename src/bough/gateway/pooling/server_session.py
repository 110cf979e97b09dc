"""The session of a server connection: what is known of it, and the queries of the gateway's own in it.

These queries reset the session for another client, check whether a reset is sufficient, and read and restore the
settings of a client. They run while no request of a client is pending, except for a reset that goes out in front of
the client's messages.
"""

from abc import abstractmethod
from collections.abc import Collection

from bough.gateway.backend import Backend
from bough.gateway.errors import session_reset_error
from bough.gateway.pooling import extensions, session_reset
from bough.gateway.pooling.extensions import StatefulExtensions
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.pool_client import PoolClient
from bough.gateway.pooling.replies import ReplyStream
from bough.gateway.pooling.reported_parameters import APPLICATION_NAME, ReportedParameters
from bough.gateway.pooling.server_transport import ServerTransport

_RESEED_SECONDS = 0.1  # a function can set a seed unnoticed; reseeding at every reset would cost a tenth more
_APPLICATION_NAME = APPLICATION_NAME.encode()

# The purpose of a query of the gateway's own. Every transaction compares these, and enum members are slow to look up.
NO_QUERY = 0
_RESET = 1  # sent in front of the client's messages
_PREPARE = 2  # the client's messages wait for it
_READ_SETTINGS = 3  # the client's ReadyForQuery is withheld until they are known
_RENAME = 4  # a RESET by the client has restored the application_name of the login
_ROLL_BACK = 5
_RESET_IDLE = 6  # without a client


class ServerSession(ServerTransport):
    def __init__(
        self,
        backend: Backend,
        reported_parameters: ReportedParameters,
        stateful_extensions: StatefulExtensions,
        application_name: bytes,
        max_statements: int,
    ) -> None:
        super().__init__(backend.without_greeting())
        self.application_name = application_name  # at login
        self.pending_replies = PendingReplies(max_statements)
        self.replies = ReplyStream(self.pending_replies, self)
        self.reported_parameters = reported_parameters
        self.client: PoolClient | None = None
        self.last_client: PoolClient | None = None  # the current or the last client
        self.is_clean = True
        self.is_pinned = False  # the session's settings cannot be read, so it stays with its client
        self._stateful_extensions = stateful_extensions
        self._own_query = NO_QUERY
        self._reseeded_at = 0.0
        self._is_checking_extensions = False  # together with the own query
        self._withheld_ready = b""  # the client's ReadyForQuery
        self._prefix = b""  # sent in front of the client's next messages

    @abstractmethod
    def release_if_done(self) -> None:
        """Release the server connection if the client has no transaction and no pending replies."""

    # Reset and settings.

    def can_serve(self, client: PoolClient) -> bool:
        """Whether a reset is sufficient for this client, or it is not known yet."""
        if self.is_clean or self.last_client is client or not self._stateful_extensions.has_stateful:
            return True
        return self._must_check

    def _prepare_for(self, client: PoolClient) -> bool:
        """Reset the session for this client and restore its settings; return False if it must wait for that."""
        self.last_client, self.is_pinned = client, False
        self.pending_replies.unnamed_statement, self.pending_replies.has_unnamed = client.unnamed_statement, False
        queries = (
            []
            if self.is_clean
            else self._reset_queries(client.translator.prepared.server_names, checks=self._must_check)
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
        self._own_query = _RESET if queries else NO_QUERY
        if not queries and self.reported_parameters is not client.reported_parameters:
            self._send_parameter_changes(client)
        return True

    def reset_idle(self) -> None:
        """Reset the session while it has no client, and release it afterwards."""
        self.last_client = None
        self._send_own_query(_RESET_IDLE, *self._reset_queries((), checks=True))

    def _read_settings(self, client: PoolClient) -> None:
        """Read the settings that the client's session has changed."""
        pending = self.pending_replies
        pending.has_changed_settings = False
        pending.local_sets = 0
        custom = {name for name in client.session_settings if b"." in name} | pending.custom_settings
        self._send_own_query(_READ_SETTINGS, session_reset.encode_read_settings(custom))

    def _roll_back(self) -> None:
        self._send_own_query(_ROLL_BACK, session_reset.ROLLBACK)

    # Queries of the gateway's own.

    def _send_own_query(self, purpose: int, *queries: bytes) -> None:
        self._own_query = purpose
        self.pending_replies.has_unnamed = False  # a simple query destroys it
        self.replies.own_queries = len(queries)
        if not self._writer.write(b"".join(queries)) and self.client is not None:
            self.client.pause_reading()

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
            self._stateful_extensions.mark_checked(now)
            queries.append(extensions.CHECK_QUERY)
        return queries

    @property
    def _must_check(self) -> bool:
        """Whether it is unknown if a reset is sufficient."""
        return self.pending_replies.has_changed_extensions or not self._stateful_extensions.is_known(self._loop.time())

    def _apply_extension_check(self, rows: list[bytes]) -> bool:
        """Record which extensions exist; return whether the reset was sufficient."""
        if not self._is_checking_extensions:
            return True
        self._is_checking_extensions = False
        has_stateful = extensions.parse_keeps_state(rows)
        self._stateful_extensions.set_result(has_stateful=has_stateful)
        return not has_stateful

    def on_own_queries_done(self) -> None:
        purpose, self._own_query = self._own_query, NO_QUERY
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
        elif error is not None or not self._apply_extension_check(rows):
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

    # Messages from Postgres.

    def on_parameter_status(self, body: bytes) -> None:
        self.reported_parameters = self.reported_parameters.with_status(body)
        if self.client is not None and self._own_query is NO_QUERY:
            self.client.reported_parameters = self.reported_parameters

    def _send_parameter_changes(self, client: PoolClient) -> None:
        client.write(self.reported_parameters.encode_changes(client.reported_parameters))
        client.reported_parameters = self.reported_parameters

    def on_statements_discarded(self) -> None:
        self.pending_replies.forget_statements()
        if self.client is not None:
            self.client.translator.forget_all()

    def restore_client_names(self, error: bytes) -> bytes:
        return error if self.client is None else self.client.translator.prepared.restore_client_names(error)

    def add_hint(self, error: bytes) -> bytes | None:
        return None if self.client is None else self.client.add_hint(error)
