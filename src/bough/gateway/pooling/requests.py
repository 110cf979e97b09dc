"""Cutting what a client says into messages, and passing them on as `translation` has them.

Bytes that need no change go on as they came. A message that has not come whole waits here, up to a size;
a larger one goes on in pieces.
"""

import struct

from bough.gateway.pooling import batches, translation
from bough.gateway.pooling.pending_replies import PendingReplies
from bough.gateway.pooling.prepared import MAX_STATEMENT_BYTES
from bough.gateway.pooling.statements import StatementCatalog
from bough.gateway.pooling.translation import DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY, SYNC, Data, MessageTranslator
from bough.gateway.wire.protocol_error import ProtocolError

MAX_BUFFERED_BYTES = 65536  # bytes of a message that is gathered before it goes on
HEADER_LENGTH = 5
_NAMES = 4096  # bytes in which the names at the beginning of a message must end
_LARGEST = (1 << 30) - 1  # bytes, as in Postgres
_TERMINATE = b"X"[0]
_PORTAL = b"P"[0]

_STEPS = {
    EXECUTE: PendingReplies.mark_unsynced,
    FLUSH: PendingReplies.ignore_flush,
    SYNC: PendingReplies.expect_sync,
}  # messages that are only counted

_head = struct.Struct(">BI").unpack_from


class RequestStream:
    __slots__ = ("_discard_bytes", "_partial", "deferred", "has_terminated", "passthrough_bytes", "translation")

    def __init__(self, catalog: StatementCatalog) -> None:
        self.translation = MessageTranslator(catalog)
        self._partial = b""  # a message that has not come whole
        self.passthrough_bytes = 0  # bytes of a message that the member has half; they go on as they are
        self._discard_bytes = 0  # or that go nowhere
        self.deferred = b""  # what comes back with the next bytes, when a question of ours is answered
        self.has_terminated = False

    @property
    def is_at_message_boundary(self) -> bool:
        """Nothing is half here."""
        return not self._partial and not self.passthrough_bytes and not self._discard_bytes and not self.deferred

    def needs_server(self, data: Data, end: int) -> bool:
        """Whether a first message is there, or so much of it that the rest need not be waited for."""
        have = end
        if self._partial:
            data = self._partial + data[:HEADER_LENGTH]
            have += len(self._partial)
        if have < HEADER_LENGTH:
            return False
        kind, length = _head(data)
        _check(kind, length)
        return bool(have > length or length > MAX_BUFFERED_BYTES)

    def buffer(self, data: Data) -> None:
        """Until more comes."""
        self._partial += data

    def drop_first_batch(self, pending_input: bytes) -> bytes | None:
        """What is left when the messages up to the first end of a batch are not to be asked; None: it has not come."""
        data, at = self._partial + pending_input, 0
        while len(data) - at >= HEADER_LENGTH:
            kind, length = _head(data, at)
            at += 1 + length
            if kind in translation.BATCH_ENDS and at <= len(data):
                self._partial = b""
                return _without_copy(data[at:])
        return None

    def process(self, data: Data, end: int, pending: PendingReplies) -> Data | None:
        """What goes to the member; None: all of it, as it came."""
        if self.is_at_message_boundary:  # then it may be one of the usual things, which are done without more ado
            if data[0] == QUERY and end > HEADER_LENGTH and _head(data)[1] + 1 == end:
                return self.translation.translate(QUERY, (data, 0, end, end), pending)
            statement = batches.parse_simple_batch(data, end) if data[0] == PARSE else None
            if statement is not None and self.translation.accept_batch(statement, pending):
                return None
        return self._process_messages(data, end, pending)

    def _process_messages(self, data: Data, end: int, ledger: PendingReplies) -> Data | None:
        pieces: list[Data] = []
        begin = at = 0
        if self._partial or self.passthrough_bytes or self._discard_bytes:
            data, end, begin, at = self._resumed(data, end, pieces)
        while at < end:
            if end - at < HEADER_LENGTH:
                begin = self._hold(data, begin, at, end, pieces)
                break
            kind, length = _head(data, at)
            stop = at + 1 + length
            step = _STEPS.get(kind)
            if step is not None and at + HEADER_LENGTH <= stop <= end:
                step(ledger)
                at = stop
                continue
            if kind == DESCRIBE and at + HEADER_LENGTH < stop <= end and data[at + HEADER_LENGTH] == _PORTAL:
                ledger.mark_unsynced()
                at = stop
                continue
            _check(kind, length)
            if kind == _TERMINATE or (stop > end and _is_waited_for(kind, length, end - at)):
                self.has_terminated = kind == _TERMINATE
                begin = self._hold(data, begin, at, end, pieces)
                break
            instead = self.translation.translate(kind, (data, at, stop, min(stop, end)), ledger)
            if instead is not None:
                pieces += (data[begin:at], instead)
                begin = stop
            if self.translation.is_waiting:
                self.translation.is_waiting = False
                self.deferred = bytes(data[at:end])
                begin = end
                break
            if stop > end:
                self._cut(stop - end)
            at = stop
        if not pieces:
            return None
        if begin < end:
            pieces.append(data[begin:end])
        return b"".join(pieces)

    def _resumed(self, data: Data, end: int, pieces: list[Data]) -> tuple[Data, int, int, int]:
        """What there is now, where what goes on begins in it, and where the next message does."""
        if self._partial:
            data = self._partial + data[:end]
            self._partial = b""
            pieces.append(b"")  # what goes on is not what came
            return data, len(data), 0, 0
        if self.passthrough_bytes:
            passed = min(self.passthrough_bytes, end)
            self.passthrough_bytes -= passed
            return data, end, 0, passed
        swallowed = min(self._discard_bytes, end)
        self._discard_bytes -= swallowed
        pieces.append(b"")
        return data, end, swallowed, swallowed

    def _hold(self, data: Data, begin: int, at: int, end: int, pieces: list[Data]) -> int:
        """Keep the rest; where what goes on begins then."""
        self._partial = bytes(data[at:end])
        pieces.append(data[begin:at])
        return end

    def _cut(self, left: int) -> None:
        if self.translation.discards_rest:
            self._discard_bytes = left
        else:
            self.passthrough_bytes = left
        self.translation.discards_rest = False


def _without_copy(data: bytes) -> bytes:
    """Behind a query that is not asked nobody reads its rows."""
    while len(data) >= HEADER_LENGTH and data[0] in translation.COPY_MESSAGES:
        data = data[1 + _head(data)[1] :]
    return data


def _is_waited_for(kind: int, length: int, have: int) -> bool:
    if kind == PARSE:
        return length <= MAX_STATEMENT_BYTES or have < _NAMES
    return length <= MAX_BUFFERED_BYTES or have < _NAMES


def _check(kind: int, length: int) -> None:
    if kind not in translation.HANDLERS and kind != _TERMINATE:
        raise ProtocolError(f"invalid frontend message type {kind}")
    if not 4 <= length <= (_LARGEST if kind in translation.STREAMABLE else MAX_BUFFERED_BYTES):
        raise ProtocolError(f"a message says it is {length} bytes long")
