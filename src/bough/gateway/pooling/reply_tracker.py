"""Handles the messages of Postgres that change what is known of the session, or that the client gets in another form.

`ReplyStream` finds these messages in the bytes of a server connection.
"""

from typing import Protocol

from bough.gateway.pooling.expected_replies import ReplacementError, ReplyKind
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.statements import NAME_PREFIX, hash_description
from bough.gateway.wire import hints, messages
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.rejections import SYNTAX_ERROR, SYNTAX_ERROR_TOKEN

ERROR, PARAMETER_STATUS, READY = b"ESZ"
_COMMAND_COMPLETE, _COPY_IN = b"CG"
_PARSE_OR_CLOSE_COMPLETE = frozenset(b"13")
_PARAMETER_DESCRIPTION, _ROW_DESCRIPTION, _NO_DATA = b"tTn"
HANDLED = frozenset((_COMMAND_COMPLETE, _COPY_IN, ERROR, PARAMETER_STATUS, READY, *_PARSE_OR_CLOSE_COMPLETE))
DESCRIPTIONS = frozenset((_PARAMETER_DESCRIPTION, _ROW_DESCRIPTION, _NO_DATA))  # handled while one is expected
_OURS = frozenset((ReplyKind.PARSE_OURS, ReplyKind.CLOSE_OURS, ReplyKind.SENTINEL))
_OUR_NAME = b'"' + NAME_PREFIX
_DESCRIBE_KINDS = frozenset((ReplyKind.DESCRIBE, ReplyKind.DESCRIBE_OURS))
_ADMIN_SHUTDOWN = "57P01"
_READ_ONLY = hints.READ_ONLY_SQLSTATE.decode()
_INVALID_STATEMENT_NAME = "26000"
_PLAN_INVALIDATED = b"\0RRevalidateCachedQuery\0"  # the routine that reports a changed result type
_SET, _RESET, _DEALLOCATE = b"SET\0", b"RESET\0", b"DEALLOCATE\0"
_DISCARDING = frozenset((b"DISCARD ALL\0", b"DEALLOCATE ALL\0"))
# Command tags of statements that change the session.
_SESSION_TAGS = frozenset((_SET, _RESET, _DEALLOCATE, b"LISTEN\0", b"PREPARE\0", *_DISCARDING))


class ReplyHandler(Protocol):
    """The callbacks for replies."""

    def on_parameter_status(self, body: bytes) -> None:
        """A parameter has changed."""

    def on_own_queries_done(self) -> None:
        """All of the gateway's own queries have been answered."""

    def on_statements_discarded(self) -> None:
        """The session has no prepared statements any more."""

    def restore_client_names(self, error: bytes) -> bytes:
        """Replace the gateway's statement names in an error by the client's."""

    def add_hint(self, error: bytes) -> bytes | None:
        """Return the error with the hint for a branch over its storage limit; None: unchanged."""


class ReplyTracker:
    __slots__ = (
        "_client_start",
        "_handler",
        "_parameter_description",
        "_pending",
        "fatal_error",
        "is_admin_shutdown",
        "is_before_first_reply",
    )

    def __init__(self, pending: PendingReplies, handler: ReplyHandler) -> None:
        self._pending = pending
        self._handler = handler
        self._client_start = 0  # where the client's messages begin in the last data
        self._parameter_description: bytes | None = None  # of a statement whose RowDescription comes next
        self.is_before_first_reply = True  # for the current client
        self.fatal_error = b""  # withheld: Postgres may have ended before it ran anything for the client
        self.is_admin_shutdown = False  # Postgres was shut down before its first reply to the client

    def _handle(self, kind: int, data: bytes | bytearray, at: int, stop: int) -> bytes | None:
        """Return the replacement for a message; None: forward it unchanged."""
        if kind == READY:
            self._pending.on_ready(data[at + HEADER_LENGTH])
        elif kind == _COMMAND_COMPLETE:
            tag = bytes(data[at + HEADER_LENGTH : stop])
            if tag in _SESSION_TAGS:
                self._handle_command_tag(tag)
        elif kind in _PARSE_OR_CLOSE_COMPLETE:
            completed = self._pending.complete_next()
            if completed in _OURS:
                return b""
        elif kind == ERROR:
            is_first = self.is_before_first_reply and at == self._client_start
            return self._handle_error(bytes(data[at:stop]), is_first=is_first)
        elif kind == PARAMETER_STATUS:
            self._handler.on_parameter_status(bytes(data[at + HEADER_LENGTH : stop]))
        elif kind == _COPY_IN:
            self._pending.on_copy_in()
        else:
            return self._handle_description(kind, bytes(data[at + HEADER_LENGTH : stop]))
        return None

    def _handle_description(self, kind: int, body: bytes) -> bytes | None:
        """A statement has a ParameterDescription before its RowDescription; a portal has only the latter."""
        expected = self._pending.expected[0][0] if self._pending.expected else None
        if kind == _PARAMETER_DESCRIPTION:
            self._parameter_description = body
        elif self._parameter_description is None or expected not in _DESCRIBE_KINDS:
            return None
        else:
            self._pending.expected.popleft()
            callback = self._pending.describe_callbacks.popleft()
            if callback is not None:
                callback(hash_description(self._parameter_description, body))
            self._parameter_description = None
        return b"" if expected is ReplyKind.DESCRIBE_OURS else None

    def _handle_command_tag(self, tag: bytes) -> None:
        pending = self._pending
        if tag == _SET and pending.local_sets:
            pending.local_sets -= 1
        elif tag in (_SET, _RESET):
            pending.has_changed_settings = True
        elif tag == _DEALLOCATE:
            pending.complete_deallocate()
        elif tag in _DISCARDING:
            self._handler.on_statements_discarded()
            pending.has_changed_settings = True
        else:
            pending.is_dirty = pending.has_sql_prepared = True

    def _handle_error(self, message: bytes, *, is_first: bool) -> bytes | None:
        error = messages.parse_error_response(message[HEADER_LENGTH:])
        if error.severity in ("FATAL", "PANIC"):
            self.is_admin_shutdown = is_first and error.sqlstate == _ADMIN_SHUTDOWN
            self.fatal_error = message
            return b""
        replacement = self._find_replacement(error.sqlstate, message)
        self._pending.on_error()
        if replacement is not None:
            return replacement
        has_our_name = _OUR_NAME in message
        if (has_our_name and error.sqlstate == _INVALID_STATEMENT_NAME) or _PLAN_INVALIDATED in message:
            self._pending.invalidate_statements()
        if error.sqlstate == _READ_ONLY:
            return self._handler.add_hint(message)
        return self._handler.restore_client_names(message) if has_our_name else None

    def _find_replacement(self, sqlstate: str, message: bytes) -> bytes | None:
        """Return the gateway's own error, if this is the syntax error that it provoked."""
        self._parameter_description = None
        subject = self._pending.expected[0][1] if self._pending.expected else None
        if isinstance(subject, ReplacementError) and sqlstate == SYNTAX_ERROR and SYNTAX_ERROR_TOKEN in message:
            return subject.error
        return None
