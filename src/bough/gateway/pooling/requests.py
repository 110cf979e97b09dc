"""Cutting what a client says into messages, and passing them on as `translation` has them.

Bytes that need no change go on as they came. A message that has not come whole waits here, up to a size;
a larger one goes on in pieces.
"""

import struct

from bough.gateway.pooling import batches, translation
from bough.gateway.pooling.ledger import Ledger
from bough.gateway.pooling.prepared import LARGEST_STATEMENT
from bough.gateway.pooling.statements import Catalog
from bough.gateway.pooling.translation import DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY, SYNC, Data, Translation
from bough.gateway.wire.malformed import Malformed

WHOLE = 65536  # bytes of a message that is gathered before it goes on
HEAD = 5
_NAMES = 4096  # bytes in which the names at the beginning of a message must end
_LARGEST = (1 << 30) - 1  # bytes, as in Postgres
_TERMINATE = b"X"[0]
_PORTAL = b"P"[0]

_STEPS = {EXECUTE: Ledger.use, FLUSH: Ledger.flush, SYNC: Ledger.sync}  # messages that are only counted

_head = struct.Struct(">BI").unpack_from


class Requests:
    __slots__ = ("_partial", "_swallow", "rest", "said_goodbye", "skip", "translation")

    def __init__(self, catalog: Catalog) -> None:
        self.translation = Translation(catalog)
        self._partial = b""  # a message that has not come whole
        self.skip = 0  # bytes of a message that the member has half; they go on as they are
        self._swallow = 0  # or that go nowhere
        self.rest = b""  # what comes back with the next bytes, when a question of ours is answered
        self.said_goodbye = False

    @property
    def is_clear(self) -> bool:
        """Nothing is half here."""
        return not self._partial and not self.skip and not self._swallow and not self.rest

    def is_worth_a_member(self, data: Data, end: int) -> bool:
        """Whether a first message is there, or so much of it that the rest need not be waited for."""
        have = end
        if self._partial:
            data = self._partial + data[:HEAD]
            have += len(self._partial)
        if have < HEAD:
            return False
        kind, length = _head(data)
        _check(kind, length)
        return bool(have > length or length > WHOLE)

    def keep(self, data: Data) -> None:
        """Until more comes."""
        self._partial += data

    def without_first_batch(self, held: bytes) -> bytes | None:
        """What is left when the messages up to the first end of a batch are not to be asked; None: it has not come."""
        data, at = self._partial + held, 0
        while len(data) - at >= HEAD:
            kind, length = _head(data, at)
            at += 1 + length
            if kind in translation.ENDS and at <= len(data):
                self._partial = b""
                return _without_copy(data[at:])
        return None

    def walk(self, data: Data, end: int, ledger: Ledger) -> Data | None:
        """What goes to the member; None: all of it, as it came."""
        if self.is_clear:  # then it may be one of the usual things, which are done without more ado
            if data[0] == QUERY and end > HEAD and _head(data)[1] + 1 == end:
                return self.translation.message(QUERY, (data, 0, end, end), ledger)
            statement = batches.statement(data, end) if data[0] == PARSE else None
            if statement is not None and self.translation.batch(statement, ledger):
                return None
        return self._walk_on(data, end, ledger)

    def _walk_on(self, data: Data, end: int, ledger: Ledger) -> Data | None:
        pieces: list[Data] = []
        begin = at = 0
        if self._partial or self.skip or self._swallow:
            data, end, begin, at = self._resumed(data, end, pieces)
        while at < end:
            if end - at < HEAD:
                begin = self._hold(data, begin, at, end, pieces)
                break
            kind, length = _head(data, at)
            stop = at + 1 + length
            step = _STEPS.get(kind)
            if step is not None and at + HEAD <= stop <= end:
                step(ledger)
                at = stop
                continue
            if kind == DESCRIBE and at + HEAD < stop <= end and data[at + HEAD] == _PORTAL:
                ledger.use()
                at = stop
                continue
            _check(kind, length)
            if kind == _TERMINATE or (stop > end and _is_waited_for(kind, length, end - at)):
                self.said_goodbye = kind == _TERMINATE
                begin = self._hold(data, begin, at, end, pieces)
                break
            instead = self.translation.message(kind, (data, at, stop, min(stop, end)), ledger)
            if instead is not None:
                pieces += (data[begin:at], instead)
                begin = stop
            if self.translation.waits:
                self.translation.waits = False
                self.rest = bytes(data[at:end])
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
        if self.skip:
            passed = min(self.skip, end)
            self.skip -= passed
            return data, end, 0, passed
        swallowed = min(self._swallow, end)
        self._swallow -= swallowed
        pieces.append(b"")
        return data, end, swallowed, swallowed

    def _hold(self, data: Data, begin: int, at: int, end: int, pieces: list[Data]) -> int:
        """Keep the rest; where what goes on begins then."""
        self._partial = bytes(data[at:end])
        pieces.append(data[begin:at])
        return end

    def _cut(self, left: int) -> None:
        if self.translation.swallows:
            self._swallow = left
        else:
            self.skip = left
        self.translation.swallows = False


def _without_copy(data: bytes) -> bytes:
    """Behind a query that is not asked nobody reads its rows."""
    while len(data) >= HEAD and data[0] in translation.COPYING:
        data = data[1 + _head(data)[1] :]
    return data


def _is_waited_for(kind: int, length: int, have: int) -> bool:
    if kind == PARSE:
        return length <= LARGEST_STATEMENT or have < _NAMES
    return length <= WHOLE or have < _NAMES


def _check(kind: int, length: int) -> None:
    if kind not in translation.HANDLERS and kind != _TERMINATE:
        raise Malformed(f"invalid frontend message type {kind}")
    if not 4 <= length <= (_LARGEST if kind in translation.IN_PIECES else WHOLE):
        raise Malformed(f"a message says it is {length} bytes long")
