"""Splits a client's bytes into messages and forwards them as `translation` changes them.

Bytes that need no change are forwarded as they are. An incomplete message is buffered up to a limit. A larger
one is forwarded in parts.
"""

import struct

from bough.gateway.pooling import translation
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.prepared import MAX_STATEMENT_BYTES
from bough.gateway.pooling.statements import StatementCatalog
from bough.gateway.pooling.translation import (
    BATCH_ENDS,
    BIND,
    DESCRIBE,
    EXECUTE,
    FLUSH,
    PARSE,
    QUERY,
    SYNC,
    Data,
    MessageTranslator,
)
from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.sql import split_statements

MAX_BUFFERED_BYTES = 65536  # of one message
_MAX_NAME_BYTES = 4096  # within which the names at the start of a message must end
_MAX_LENGTH = (1 << 30) - 1  # as in Postgres
_TERMINATE = b"X"[0]
_PORTAL = b"P"[0]

# Messages that are never changed.
_UNCHANGED = {
    EXECUTE: PendingReplies.mark_unsynced,
    FLUSH: PendingReplies.ignore_flush,
    SYNC: PendingReplies.expect_sync,
}

# The parts of the batch that drivers send most often.
_MIN_UNNAMED_LENGTH = 7  # bytes of a Parse or Bind without names, up to its query or its parameter formats
_BATCH_DESCRIBE, _BATCH_EXECUTE, _BATCH_SYNC = b"D\0\0\0\x06P\0", b"E\0\0\0\x09\0\0\0\0\0", b"S\0\0\0\x04"
_BATCH_TAILS = frozenset((_BATCH_DESCRIBE + _BATCH_EXECUTE + _BATCH_SYNC, _BATCH_EXECUTE + _BATCH_SYNC))

# The first words of statements that do not commit by themselves.
_SINGLE_TRANSACTION_WORDS = frozenset(
    ["begin", "delete", "insert", "merge", "select", "show", "start", "table", "update", "values", "with"]
)
_WITHOUT_TEXT = frozenset((DESCRIBE, EXECUTE, *BATCH_ENDS))

_unpack_header = struct.Struct(">BI").unpack_from
_unpack_length = struct.Struct(">I").unpack_from


class RequestStream:
    __slots__ = ("_discard_bytes", "_partial", "deferred", "has_terminated", "passthrough_bytes", "translation")

    def __init__(self, catalog: StatementCatalog) -> None:
        self.translation = MessageTranslator(catalog)
        self._partial = b""  # an incomplete message
        self.passthrough_bytes = 0  # to come of a message that is forwarded in parts
        self._discard_bytes = 0  # to come of a message that is not forwarded
        self.deferred = b""  # to process again when a query of ours has been answered
        self.has_terminated = False

    @property
    def is_at_message_boundary(self) -> bool:
        """No message is incomplete."""
        return not self._partial and not self.passthrough_bytes and not self._discard_bytes and not self.deferred

    def needs_server(self, data: Data, end: int) -> bool:
        """Whether the first message is complete, or long enough to be forwarded in parts."""
        available = end
        if self._partial:
            data = self._partial + data[:HEADER_LENGTH]
            available += len(self._partial)
        if available < HEADER_LENGTH:
            return False
        kind, length = _unpack_header(data)
        _check_header(kind, length)
        return bool(available > length or length > MAX_BUFFERED_BYTES)

    def buffer(self, data: Data) -> None:
        """Keep an incomplete message."""
        self._partial += data

    def drop_first_batch(self, pending_input: bytes) -> bytes | None:
        """Return the input after its first batch; None: the batch is incomplete."""
        data, at = self._partial + pending_input, 0
        while len(data) - at >= HEADER_LENGTH:
            kind, length = _unpack_header(data, at)
            at += 1 + length
            if kind in BATCH_ENDS and at <= len(data):
                self._partial = b""
                return _strip_copy_messages(data[at:])
        return None

    def process(self, data: Data, end: int, pending: PendingReplies) -> Data | None:
        """Return the bytes for the server connection; None: all of them unchanged."""
        if self.is_at_message_boundary:  # fast paths for a single query and for the most frequent batch
            if data[0] == QUERY and end > HEADER_LENGTH and _unpack_header(data)[1] + 1 == end:
                return self.translation.translate(QUERY, (data, 0, end, end), pending)
            statement = parse_simple_batch(data, end) if data[0] == PARSE else None
            if statement is not None and self.translation.accept_batch(statement, pending):
                return None
        return self._process_messages(data, end, pending)

    def is_single_transaction(self, data: bytes) -> bool:
        """Whether these messages are one transaction, and so can be sent again if Postgres shut down before a reply.

        Postgres has then rolled the transaction back, unless a statement commits by itself.
        """
        at, parsed = 0, b""
        while at < len(data):
            kind, stop = data[at], at + 1 + int.from_bytes(data[at + 1 : at + HEADER_LENGTH])
            body = data[at + HEADER_LENGTH : stop]
            if kind in BATCH_ENDS and stop != len(data):
                return False
            if kind == PARSE:
                parsed = body.split(b"\0", 2)[1]
                text: bytes | None = parsed
            elif kind == QUERY:
                text = body[:-1]
            elif kind == BIND:
                name = body.split(b"\0", 2)[1]
                text = self.translation.prepared.get_text(name) if name else parsed
            else:
                text = b"" if kind in _WITHOUT_TEXT else None
            if text is None or not _has_single_transaction(text):
                return False
            at = stop
        return True

    def _process_messages(self, data: Data, end: int, pending: PendingReplies) -> Data | None:
        parts: list[Data] = []
        begin = at = 0
        if self._partial or self.passthrough_bytes or self._discard_bytes:
            data, end, begin, at = self._resume(data, end, parts)
        while at < end:
            if end - at < HEADER_LENGTH:
                begin = self._buffer_rest(data, begin, at, end, parts)
                break
            kind, length = _unpack_header(data, at)
            stop = at + 1 + length
            record = _UNCHANGED.get(kind)
            if record is not None and at + HEADER_LENGTH <= stop <= end:
                record(pending)
                at = stop
                continue
            if kind == DESCRIBE and at + HEADER_LENGTH < stop <= end and data[at + HEADER_LENGTH] == _PORTAL:
                pending.mark_unsynced()
                at = stop
                continue
            _check_header(kind, length)
            if kind == _TERMINATE or (stop > end and _needs_rest(kind, length, end - at)):
                self.has_terminated = kind == _TERMINATE
                begin = self._buffer_rest(data, begin, at, end, parts)
                break
            replacement = self.translation.translate(kind, (data, at, stop, min(stop, end)), pending)
            if replacement is not None:
                parts += (data[begin:at], replacement)
                begin = stop
            if self.translation.is_waiting:
                self.translation.is_waiting = False
                self.deferred = bytes(data[at:end])
                begin = end
                break
            if stop > end:
                self._expect_rest(stop - end)
            at = stop
        if not parts:
            return None
        if begin < end:
            parts.append(data[begin:end])
        return b"".join(parts)

    def _resume(self, data: Data, end: int, parts: list[Data]) -> tuple[Data, int, int, int]:
        """Return the data, its end, where the bytes to forward begin, and where the next message begins."""
        if self._partial:
            data = self._partial + data[:end]
            self._partial = b""
            parts.append(b"")  # the forwarded bytes differ from the received ones
            return data, len(data), 0, 0
        if self.passthrough_bytes:
            forwarded = min(self.passthrough_bytes, end)
            self.passthrough_bytes -= forwarded
            return data, end, 0, forwarded
        discarded = min(self._discard_bytes, end)
        self._discard_bytes -= discarded
        parts.append(b"")
        return data, end, discarded, discarded

    def _buffer_rest(self, data: Data, begin: int, at: int, end: int, parts: list[Data]) -> int:
        """Buffer the rest; return where the bytes to forward begin then."""
        self._partial = bytes(data[at:end])
        parts.append(data[begin:at])
        return end

    def _expect_rest(self, count: int) -> None:
        if self.translation.discards_rest:
            self._discard_bytes = count
        else:
            self.passthrough_bytes = count
        self.translation.discards_rest = False


def parse_simple_batch(data: Data, end: int) -> bytes | None:
    """Return the query and types of an unnamed Parse, if the data is the batch that drivers send most often.

    It is Parse, Bind, Execute and Sync in one write, without names. Handling it at once costs little more than
    handling one of its messages.
    """
    if end < HEADER_LENGTH:
        return None
    bind = 1 + _unpack_length(data, 1)[0]
    if not _MIN_UNNAMED_LENGTH <= bind <= end - _MIN_UNNAMED_LENGTH or data[HEADER_LENGTH] != 0 or data[bind] != BIND:
        return None
    tail = bind + 1 + _unpack_length(data, bind + 1)[0]
    if tail < bind + _MIN_UNNAMED_LENGTH or data[bind + HEADER_LENGTH] != 0 or data[bind + HEADER_LENGTH + 1] != 0:
        return None
    return bytes(data[HEADER_LENGTH + 1 : bind]) if bytes(data[tail:end]) in _BATCH_TAILS else None


def _has_single_transaction(text: bytes) -> bool:
    statements = split_statements(text)
    return len(statements) <= 1 and all(words[0] in _SINGLE_TRANSACTION_WORDS for words in statements)


def _strip_copy_messages(data: bytes) -> bytes:
    """Drop the COPY data of a query that was not run."""
    while len(data) >= HEADER_LENGTH and data[0] in translation.COPY_MESSAGES:
        data = data[1 + _unpack_header(data)[1] :]
    return data


def _needs_rest(kind: int, length: int, available: int) -> bool:
    """Whether a message must be complete before it is translated."""
    if kind == PARSE:
        return length <= MAX_STATEMENT_BYTES or available < _MAX_NAME_BYTES
    return length <= MAX_BUFFERED_BYTES or available < _MAX_NAME_BYTES


def _check_header(kind: int, length: int) -> None:
    if kind not in translation.HANDLERS and kind != _TERMINATE:
        raise ProtocolError(f"invalid frontend message type {kind}")
    if not 4 <= length <= (_MAX_LENGTH if kind in translation.STREAMABLE else MAX_BUFFERED_BYTES):
        raise ProtocolError(f"a message has an invalid length of {length} bytes")
