"""Splits the bytes of a server connection into messages: forwards them to the client and tracks the session.

Replies to the gateway's own queries come before all others and are not forwarded. Rows are forwarded unread.
"""

import struct
from typing import Protocol

from bough.gateway.pooling.pending_replies import PendingReplies, ReplacementError, ReplyKind
from bough.gateway.pooling.statements import NAME_PREFIX, hash_description
from bough.gateway.wire import hints, messages
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.rejections import SYNTAX_ERROR, SYNTAX_ERROR_TOKEN

_MAX_READ_BYTES = 1 << 20  # a larger message is forwarded unread
MAX_OWN_REPLY_BYTES = 1 << 20  # of all replies to the gateway's own queries
_COMMAND_COMPLETE, _COPY_IN, _ERROR, _PARAMETER_STATUS, _READY, _ROW = b"CGESZD"
_PARSE_OR_CLOSE_COMPLETE = frozenset(b"13")
_PARSE_AND_BIND_COMPLETE = b"1\0\0\0\x042\0\0\0\x04"
_PARAMETER_DESCRIPTION, _ROW_DESCRIPTION, _NO_DATA = b"tTn"
_DESCRIPTIONS = frozenset((_PARAMETER_DESCRIPTION, _ROW_DESCRIPTION, _NO_DATA))
_HANDLED = frozenset((_COMMAND_COMPLETE, _COPY_IN, _ERROR, _PARAMETER_STATUS, _READY, *_PARSE_OR_CLOSE_COMPLETE))
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

_unpack_length = struct.Struct(">I").unpack_from


class ReplyHandler(Protocol):
    """The callbacks of a reply stream."""

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


class ReplyStream:
    __slots__ = (
        "_buffer",
        "_client_start",
        "_handler",
        "_missing_bytes",
        "_own_bytes",
        "_parameter_description",
        "_passthrough_bytes",
        "_pending",
        "fatal_error",
        "is_admin_shutdown",
        "is_before_first_reply",
        "own_error",
        "own_queries",
        "own_rows",
    )

    def __init__(self, pending: PendingReplies, handler: ReplyHandler) -> None:
        self._pending = pending
        self._handler = handler
        self._buffer = bytearray()  # the start of a message that must be complete
        self._missing_bytes = 0  # of that message, or of its header
        self._own_bytes = 0  # of replies to the gateway's own queries
        self._client_start = 0  # where the client's messages begin in the last data
        self._passthrough_bytes = 0  # to come of a message that is forwarded unread
        self._parameter_description: bytes | None = None  # of a statement whose RowDescription comes next
        self.own_queries = 0  # of the gateway, whose replies come first
        self.own_rows: list[bytes] = []  # of these queries
        self.own_error: ErrorResponse | None = None  # of one of these queries
        self.is_before_first_reply = True  # for the current client
        self.fatal_error = b""  # withheld: Postgres may have ended before it ran anything for the client
        self.is_admin_shutdown = False  # Postgres was shut down before its first reply to the client

    @property
    def is_at_message_boundary(self) -> bool:
        """The client has received no partial message."""
        return not self._passthrough_bytes

    def take_own_results(self) -> tuple[ErrorResponse | None, list[bytes]]:
        """Return and clear the error and the rows of the gateway's own queries."""
        error, rows = self.own_error, self.own_rows
        self._own_bytes = 0
        if error is not None or rows:
            self.own_error, self.own_rows = None, []
        return error, rows

    def process(self, buffer: memoryview, data: bytes | bytearray, end: int) -> memoryview | bytes:
        """Return the bytes for the client; `buffer` is a view of `data`."""
        if self._buffer or self.own_queries:
            buffer, data, end = self._resume(buffer, data, end)
        begin = at = self._read_own(data, end) if self.own_queries else 0
        if self._passthrough_bytes:
            at = min(self._passthrough_bytes, end)
            self._passthrough_bytes -= at
        self._client_start = at
        parts: list[memoryview | bytes] = []
        describe_callbacks = self._pending.describe_callbacks
        if data.startswith(_PARSE_AND_BIND_COMPLETE, at, end) and self._pending.is_parsing_unnamed:
            self._pending.complete_next()
            at += len(_PARSE_AND_BIND_COMPLETE)
        while at < end:
            if end - at < HEADER_LENGTH:
                end = self._buffer_rest(data, at, end)
                break
            kind = data[at]
            stop = at + 1 + _unpack_length(data, at + 1)[0]
            if kind == _ROW and stop <= end:  # the most frequent message
                at = stop
                continue
            if (kind in _HANDLED or (describe_callbacks and kind in _DESCRIPTIONS)) and stop - at <= _MAX_READ_BYTES:
                if stop > end:
                    end = self._buffer_rest(data, at, end)
                    break
                replacement = self._handle(kind, data, at, stop)
                if replacement is not None:
                    parts += (buffer[begin:at], replacement)
                    begin = stop
            elif stop > end:
                self._passthrough_bytes = stop - end
            at = stop
        self.is_before_first_reply = self.is_before_first_reply and at == self._client_start
        if not parts:
            return buffer[begin:end]
        parts.append(buffer[begin:end])
        return b"".join(parts)

    def _resume(
        self, buffer: memoryview, data: bytes | bytearray, end: int
    ) -> tuple[memoryview, bytes | bytearray, int]:
        """Prepend the buffered message; return no data while it is still incomplete."""
        if self.own_queries:
            self._count_own(end)
        if not self._buffer:
            return buffer, data, end
        self._buffer += buffer[:end]
        self._missing_bytes -= end
        if self._missing_bytes > 0:
            return buffer, data, 0
        data, self._buffer = self._buffer, bytearray()
        return memoryview(data), data, len(data)

    def _buffer_rest(self, data: bytes | bytearray, at: int, end: int) -> int:
        """Buffer the rest; return where the bytes to forward end."""
        self._buffer = bytearray(data[at:end])
        has_header = end - at >= HEADER_LENGTH
        self._missing_bytes = (at + 1 + _unpack_length(data, at + 1)[0] if has_header else at + HEADER_LENGTH) - end
        return at

    def _count_own(self, count: int) -> None:
        self._own_bytes += count
        if self._own_bytes > MAX_OWN_REPLY_BYTES:
            raise ProtocolError(f"the replies to the gateway's own queries are longer than {MAX_OWN_REPLY_BYTES} bytes")

    def _read_own(self, data: bytes | bytearray, end: int) -> int:
        """Read the replies to the gateway's own queries; return where they end."""
        at = 0
        while self.own_queries and at < end:
            stop = at + 1 + _unpack_length(data, at + 1)[0] if end - at >= HEADER_LENGTH else end + 1
            if stop > end:
                self._buffer_rest(data, at, end)
                return end
            kind = data[at]
            if kind == _READY:
                self.own_queries -= 1
                self._pending.status = data[at + HEADER_LENGTH]
            elif kind == _ROW:
                self.own_rows.append(bytes(data[at + HEADER_LENGTH : stop]))
            elif kind == _PARAMETER_STATUS:
                self._handler.on_parameter_status(bytes(data[at + HEADER_LENGTH : stop]))
            elif kind == _ERROR:
                self.own_error = messages.parse_error_response(bytes(data[at + HEADER_LENGTH : stop]))
            at = stop
        if not self.own_queries:
            self._handler.on_own_queries_done()
        return at

    def _handle(self, kind: int, data: bytes | bytearray, at: int, stop: int) -> bytes | None:
        """Return the replacement for a message; None: forward it unchanged."""
        if kind == _READY:
            self._pending.on_ready(data[at + HEADER_LENGTH])
        elif kind == _COMMAND_COMPLETE:
            tag = bytes(data[at + HEADER_LENGTH : stop])
            if tag in _SESSION_TAGS:
                self._handle_command_tag(tag)
        elif kind in _PARSE_OR_CLOSE_COMPLETE:
            completed = self._pending.complete_next()
            if completed in _OURS:
                return b""
        elif kind == _ERROR:
            is_first = self.is_before_first_reply and at == self._client_start
            return self._handle_error(bytes(data[at:stop]), is_first=is_first)
        elif kind == _PARAMETER_STATUS:
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
            self._pending.describe_callbacks.popleft()(hash_description(self._parameter_description, body))
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
