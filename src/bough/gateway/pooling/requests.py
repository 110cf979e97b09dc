"""Splits a client's bytes into messages and forwards them as `translation` changes them.

Bytes that need no change are forwarded as they are. An incomplete message is buffered up to a limit. A larger
one is forwarded in parts.
"""

from bough.gateway.pooling.frontend_messages import (
    BATCH_ENDS,
    DESCRIBE,
    EXECUTE,
    FLUSH,
    MAX_BUFFERED_BYTES,
    PARSE,
    QUERY,
    SYNC,
    TERMINATE,
    Data,
    check_header,
    needs_rest,
    parse_simple_batch,
    strip_copy_messages,
    unpack_header,
)
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.statements import StatementCatalog
from bough.gateway.pooling.translation import MessageTranslator
from bough.gateway.wire.framing import HEADER_LENGTH

_PORTAL = b"P"[0]

# Messages that are never changed.
_UNCHANGED = {
    EXECUTE: PendingReplies.mark_unsynced,
    FLUSH: PendingReplies.ignore_flush,
    SYNC: PendingReplies.expect_sync,
}


class RequestStream:
    __slots__ = ("_discard_bytes", "_partial", "deferred", "has_terminated", "passthrough_bytes", "translator")

    def __init__(self, catalog: StatementCatalog) -> None:
        self.translator = MessageTranslator(catalog)
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
        kind, length = unpack_header(data)
        check_header(kind, length)
        return bool(available > length or length > MAX_BUFFERED_BYTES)

    def buffer(self, data: Data) -> None:
        """Keep an incomplete message."""
        self._partial += data

    def drop_first_batch(self, pending_input: bytes) -> bytes | None:
        """Return the input after its first batch; None: the batch is incomplete."""
        data, at = self._partial + pending_input, 0
        while len(data) - at >= HEADER_LENGTH:
            kind, length = unpack_header(data, at)
            at += 1 + length
            if kind in BATCH_ENDS and at <= len(data):
                self._partial = b""
                return strip_copy_messages(data[at:])
        return None

    def process(self, data: Data, end: int, pending: PendingReplies) -> Data | None:
        """Return the bytes for the server connection; None: all of them unchanged."""
        if self.is_at_message_boundary:  # fast paths for a single query and for the most frequent batch
            if data[0] == QUERY and end > HEADER_LENGTH and unpack_header(data)[1] + 1 == end:
                return self.translator.translate(QUERY, (data, 0, end, end), pending)
            statement = parse_simple_batch(data, end) if data[0] == PARSE else None
            if statement is not None and self.translator.accept_batch(statement, pending):
                return None
        return self._process_messages(data, end, pending)

    def _process_messages(self, data: Data, end: int, pending: PendingReplies) -> Data | None:
        parts: list[Data] = []
        begin = at = 0
        if self._partial or self.passthrough_bytes or self._discard_bytes:
            data, end, begin, at = self._resume(data, end, parts)
        while at < end:
            if end - at < HEADER_LENGTH:
                begin = self._buffer_rest(data, begin, at, end, parts)
                break
            kind, length = unpack_header(data, at)
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
            check_header(kind, length)
            if kind == TERMINATE or (stop > end and needs_rest(kind, length, end - at)):
                self.has_terminated = kind == TERMINATE
                begin = self._buffer_rest(data, begin, at, end, parts)
                break
            replacement = self.translator.translate(kind, (data, at, stop, min(stop, end)), pending)
            if replacement is not None:
                parts += (data[begin:at], replacement)
                begin = stop
            if self.translator.is_waiting:
                self.translator.is_waiting = False
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
        if self.translator.discards_rest:
            self._discard_bytes = count
        else:
            self.passthrough_bytes = count
        self.translator.discards_rest = False
