"""What a member says, message by message: what of it goes on to the client, and what it tells us.

Answers to what we asked ourselves come before all others and stay here. Rows go by as they came.
"""

import struct
from typing import Protocol

from bough.gateway.pooling.awaited import ReplacementError, ReplyKind
from bough.gateway.pooling.batches import PARSE_AND_BIND_COMPLETE
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.statements import NAME_PREFIX, hash_description
from bough.gateway.wire import hints, messages
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.rejections import SYNTAX_ERROR, SYNTAX_ERROR_TOKEN

_HEAD = 5
_WHOLE = 1 << 20  # bytes of a message that we read; a larger one goes by unread
MAX_OWN_REPLY_BYTES = 1 << 20  # bytes of all answers to what we asked ourselves
_COMPLETE, _COPY_IN, _ERROR, _PARAMETER, _READY, _ROW = b"CGESZD"
_DONE = frozenset(b"31")  # Close and Parse
_PARAMETERS, _COLUMNS, _NO_COLUMNS = b"tTn"
_DESCRIPTION = frozenset((_PARAMETERS, _COLUMNS, _NO_COLUMNS))
_READ = frozenset((_COMPLETE, _COPY_IN, _ERROR, _PARAMETER, _READY, *_DONE))
_OURS = frozenset((ReplyKind.PARSE_OURS, ReplyKind.CLOSE_OURS, ReplyKind.SENTINEL))
_OUR_NAME = b'"' + NAME_PREFIX
_DESCRIBES = frozenset((ReplyKind.DESCRIBE, ReplyKind.DESCRIBE_OURS))
_SHUT_DOWN = "57P01"
_READ_ONLY = hints.READ_ONLY_SQLSTATE.decode()
_NO_STATEMENT = "26000"
_OLD_PLAN = b"\0RRevalidateCachedQuery\0"  # where Postgres finds that a plan does not fit its tables any longer
_SET, _RESET, _DEALLOCATE = b"SET\0", b"RESET\0", b"DEALLOCATE\0"
_FORGETTING = frozenset((b"DISCARD ALL\0", b"DEALLOCATE ALL\0"))
# Those that say something about the session.
_TAGS = frozenset((_SET, _RESET, _DEALLOCATE, b"LISTEN\0", b"PREPARE\0", *_FORGETTING))

_length = struct.Struct(">I").unpack_from


class ReplyHandler(Protocol):
    """Who is told what was read."""

    def on_parameter_status(self, body: bytes) -> None:
        """A parameter has another value."""

    def on_own_queries_done(self) -> None:
        """All that we asked ourselves."""

    def on_statements_discarded(self) -> None:
        """All prepared statements."""

    def restore_client_names(self, error: bytes) -> bytes:
        """An error message that speaks of statements by our names."""

    def add_hint(self, error: bytes) -> bytes | None:
        """With what helps somebody who cannot write; None: as it is."""


class ReplyStream:
    __slots__ = (
        "_began",
        "_buffer",
        "_hooks",
        "_lacking",
        "_ledger",
        "_own_bytes",
        "_parameters",
        "_passing",
        "fatal_error",
        "is_admin_shutdown",
        "is_before_first_reply",
        "own_error",
        "own_queries",
        "own_rows",
    )

    def __init__(self, pending: PendingReplies, handler: ReplyHandler) -> None:
        self._ledger = pending
        self._hooks = handler
        self._buffer = bytearray()  # the beginning of a message that is read whole
        self._lacking = 0  # bytes of it to come, as far as it is known
        self._own_bytes = 0  # of the answers to what we asked ourselves, so far
        self._began = 0  # where the client's messages begin in what came last
        self._passing = 0  # bytes to come of a message that goes by
        self._parameters: bytes | None = None  # of a statement whose columns come next
        self.own_queries = 0  # batches of ours whose answers come first
        self.own_rows: list[bytes] = []  # that they brought
        self.own_error: ErrorResponse | None = None  # of one of them
        self.is_before_first_reply = True  # nothing has come for the client of now
        self.fatal_error = b""  # kept back: Postgres may have ended before it did anything for the client
        self.is_admin_shutdown = False  # it has done nothing for the client, and ends because it was told to

    @property
    def is_at_message_boundary(self) -> bool:
        """The client has no message half."""
        return not self._passing

    def take_own_results(self) -> tuple[ErrorResponse | None, list[bytes]]:
        """The failure and the rows that there were, once."""
        failure, rows = self.own_error, self.own_rows
        self._own_bytes = 0
        if failure is not None or rows:
            self.own_error, self.own_rows = None, []
        return failure, rows

    def process(self, buffer: memoryview, data: bytes | bytearray, end: int) -> memoryview | bytes:
        """What goes on to the client; `room` is a view of `data`."""
        if self._buffer or self.own_queries:
            buffer, data, end = self._continued(buffer, data, end)
        begin = at = self._own(data, end) if self.own_queries else 0
        if self._passing:
            at = min(self._passing, end)
            self._passing -= at
        self._began = at
        pieces: list[memoryview | bytes] = []
        describing = self._ledger.describe_callbacks
        if data.startswith(PARSE_AND_BIND_COMPLETE, at, end) and self._ledger.is_parsing_unnamed:
            self._ledger.complete_next()
            at += len(PARSE_AND_BIND_COMPLETE)
        while at < end:
            if end - at < _HEAD:
                end = self._hold(data, at, end)
                break
            kind = data[at]
            stop = at + 1 + _length(data, at + 1)[0]
            if kind == _ROW and stop <= end:  # the most there are
                at = stop
                continue
            if (kind in _READ or (describing and kind in _DESCRIPTION)) and stop - at <= _WHOLE:
                if stop > end:
                    end = self._hold(data, at, end)
                    break
                instead = self._read(kind, data, at, stop)
                if instead is not None:
                    pieces += (buffer[begin:at], instead)
                    begin = stop
            elif stop > end:
                self._passing = stop - end
            at = stop
        self.is_before_first_reply = self.is_before_first_reply and at == self._began
        if not pieces:
            return buffer[begin:end]
        pieces.append(buffer[begin:end])
        return b"".join(pieces)

    def _continued(
        self, room: memoryview, data: bytes | bytearray, end: int
    ) -> tuple[memoryview, bytes | bytearray, int]:
        """With what is held of a message; nothing while that lacks more than what came."""
        if self.own_queries:
            self._count_own(end)
        if not self._buffer:
            return room, data, end
        self._buffer += room[:end]
        self._lacking -= end
        if self._lacking > 0:
            return room, data, 0
        data, self._buffer = self._buffer, bytearray()
        return memoryview(data), data, len(data)

    def _hold(self, data: bytes | bytearray, at: int, end: int) -> int:
        """Where what may go on ends."""
        self._buffer = bytearray(data[at:end])
        self._lacking = (at + 1 + _length(data, at + 1)[0] if end - at >= _HEAD else at + _HEAD) - end
        return at

    def _count_own(self, count: int) -> None:
        self._own_bytes += count
        if self._own_bytes > MAX_OWN_REPLY_BYTES:
            raise ProtocolError(
                f"the answers to the gateway's own questions are longer than {MAX_OWN_REPLY_BYTES} bytes"
            )

    def _own(self, data: bytes | bytearray, end: int) -> int:
        """Read the answers to what we asked; where they end."""
        at = 0
        while self.own_queries and at < end:
            stop = at + 1 + _length(data, at + 1)[0] if end - at >= _HEAD else end + 1
            if stop > end:
                self._hold(data, at, end)
                return end
            kind = data[at]
            if kind == _READY:
                self.own_queries -= 1
                self._ledger.status = data[at + _HEAD]
            elif kind == _ROW:
                self.own_rows.append(bytes(data[at + _HEAD : stop]))
            elif kind == _PARAMETER:
                self._hooks.on_parameter_status(bytes(data[at + _HEAD : stop]))
            elif kind == _ERROR:
                self.own_error = messages.parse_error_response(bytes(data[at + _HEAD : stop]))
            at = stop
        if not self.own_queries:
            self._hooks.on_own_queries_done()
        return at

    def _read(self, kind: int, data: bytes | bytearray, at: int, stop: int) -> bytes | None:
        """What the client hears in its place; None: the message itself."""
        if kind == _READY:
            self._ledger.on_ready(data[at + _HEAD])
        elif kind == _COMPLETE:
            tag = bytes(data[at + _HEAD : stop])
            if tag in _TAGS:
                self._complete(tag)
        elif kind in _DONE:
            answered = self._ledger.complete_next()
            if answered in _OURS:
                return b""
        elif kind == _ERROR:
            return self._error(bytes(data[at:stop]), is_first=self.is_before_first_reply and at == self._began)
        elif kind == _PARAMETER:
            self._hooks.on_parameter_status(bytes(data[at + _HEAD : stop]))
        elif kind == _COPY_IN:
            self._ledger.on_copy_in()
        else:
            return self._described(kind, bytes(data[at + _HEAD : stop]))
        return None

    def _described(self, kind: int, body: bytes) -> bytes | None:
        """Of a statement there are two: its parameters, and its columns. Of a portal there is the second."""
        awaited = self._ledger.expected[0][0] if self._ledger.expected else None
        if kind == _PARAMETERS:
            self._parameters = body
        elif self._parameters is None or awaited not in _DESCRIBES:
            return None
        else:
            self._ledger.expected.popleft()
            self._ledger.describe_callbacks.popleft()(hash_description(self._parameters, body))
            self._parameters = None
        return b"" if awaited is ReplyKind.DESCRIBE_OURS else None

    def _complete(self, tag: bytes) -> None:
        ledger = self._ledger
        if tag == _SET and ledger.local_sets:
            ledger.local_sets -= 1
        elif tag in (_SET, _RESET):
            ledger.has_changed_settings = True
        elif tag == _DEALLOCATE:
            ledger.complete_deallocate()
        elif tag in _FORGETTING:
            self._hooks.on_statements_discarded()
            ledger.has_changed_settings = True
        else:
            ledger.is_dirty = ledger.has_sql_prepared = True

    def _error(self, message: bytes, *, is_first: bool) -> bytes | None:
        trouble = messages.parse_error_response(message[_HEAD:])
        if trouble.severity in ("FATAL", "PANIC"):
            self.is_admin_shutdown = is_first and trouble.sqlstate == _SHUT_DOWN
            self.fatal_error = message
            return b""
        refused = self._find_replacement(trouble.sqlstate, message)
        self._ledger.on_error()
        if refused is not None:
            return refused
        is_ours = _OUR_NAME in message
        if (is_ours and trouble.sqlstate == _NO_STATEMENT) or _OLD_PLAN in message:
            self._ledger.invalidate_statements()
        if trouble.sqlstate == _READ_ONLY:
            return self._hooks.add_hint(message)
        return self._hooks.restore_client_names(message) if is_ours else None

    def _find_replacement(self, code: str, message: bytes) -> bytes | None:
        """Our words, when it is the error that we brought about."""
        self._parameters = None
        undo = self._ledger.expected[0][1] if self._ledger.expected else None
        if isinstance(undo, ReplacementError) and code == SYNTAX_ERROR and SYNTAX_ERROR_TOKEN in message:
            return undo.error
        return None
