"""Splits the bytes of a server connection into messages, and forwards them to the client.

Replies to the gateway's own queries come before all others and are not forwarded. Rows are forwarded unread. The
messages that change the session are handled by `ReplyTracker`.
"""

import struct

from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.reply_tracker import (
    DESCRIPTIONS,
    ERROR,
    HANDLED,
    PARAMETER_STATUS,
    READY,
    ReplyHandler,
    ReplyTracker,
)
from bough.gateway.wire import messages
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.messages import ErrorResponse
from bough.gateway.wire.protocol_error import ProtocolError

_MAX_READ_BYTES = 1 << 20  # a larger message is forwarded unread
MAX_OWN_REPLY_BYTES = 1 << 20  # of all replies to the gateway's own queries
_ROW = b"D"[0]
_PARSE_AND_BIND_COMPLETE = b"1\0\0\0\x042\0\0\0\x04"

_unpack_length = struct.Struct(">I").unpack_from


class ReplyStream(ReplyTracker):
    __slots__ = (
        "_buffer",
        "_missing_bytes",
        "_own_bytes",
        "_passthrough_bytes",
        "own_error",
        "own_queries",
        "own_rows",
    )

    def __init__(self, pending: PendingReplies, handler: ReplyHandler) -> None:
        super().__init__(pending, handler)
        self._buffer = bytearray()  # the start of a message that must be complete
        self._missing_bytes = 0  # of that message, or of its header
        self._own_bytes = 0  # of replies to the gateway's own queries
        self._passthrough_bytes = 0  # to come of a message that is forwarded unread
        self.own_queries = 0  # of the gateway, whose replies come first
        self.own_rows: list[bytes] = []  # of these queries
        self.own_error: ErrorResponse | None = None  # of one of these queries

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
            if (kind in HANDLED or (describe_callbacks and kind in DESCRIPTIONS)) and stop - at <= _MAX_READ_BYTES:
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
            if kind == READY:
                self.own_queries -= 1
                self._pending.status = data[at + HEADER_LENGTH]
            elif kind == _ROW:
                self.own_rows.append(bytes(data[at + HEADER_LENGTH : stop]))
            elif kind == PARAMETER_STATUS:
                self._handler.on_parameter_status(bytes(data[at + HEADER_LENGTH : stop]))
            elif kind == ERROR:
                self.own_error = messages.parse_error_response(bytes(data[at + HEADER_LENGTH : stop]))
            at = stop
        if not self.own_queries:
            self._handler.on_own_queries_done()
        return at
