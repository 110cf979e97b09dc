"""What a member says, message by message: what of it goes on to the client, and what it tells us.

Answers to what we asked ourselves come before all others and stay here. Rows go by as they came.
"""

import struct
from typing import Protocol

from bough.gateway.pooling.awaited import Awaited, Words
from bough.gateway.pooling.batches import ANSWERED
from bough.gateway.pooling.ledger import Ledger
from bough.gateway.pooling.statements import PREFIX, shape
from bough.gateway.wire import hints, messages
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.messages import Trouble
from bough.gateway.wire.refusals import NEAR, SYNTAX_ERROR

_HEAD = 5
_WHOLE = 1 << 20  # bytes of a message that we read; a larger one goes by unread
MOST_OWN = 1 << 20  # bytes of all answers to what we asked ourselves
_COMPLETE, _COPY_IN, _ERROR, _PARAMETER, _READY, _ROW = b"CGESZD"
_DONE = frozenset(b"31")  # Close and Parse
_PARAMETERS, _COLUMNS, _NO_COLUMNS = b"tTn"
_DESCRIPTION = frozenset((_PARAMETERS, _COLUMNS, _NO_COLUMNS))
_READ = frozenset((_COMPLETE, _COPY_IN, _ERROR, _PARAMETER, _READY, *_DONE))
_OURS = frozenset((Awaited.PARSE_OURS, Awaited.CLOSE_OURS, Awaited.SENTINEL))
_OUR_NAME = b'"' + PREFIX
_DESCRIBES = frozenset((Awaited.DESCRIBE, Awaited.DESCRIBE_OURS))
_SHUT_DOWN = "57P01"
_READ_ONLY = hints.READ_ONLY.decode()
_NO_STATEMENT = "26000"
_OLD_PLAN = b"\0RRevalidateCachedQuery\0"  # where Postgres finds that a plan does not fit its tables any longer
_SET, _RESET, _DEALLOCATE = b"SET\0", b"RESET\0", b"DEALLOCATE\0"
_FORGETTING = frozenset((b"DISCARD ALL\0", b"DEALLOCATE ALL\0"))
# Those that say something about the session.
_TAGS = frozenset((_SET, _RESET, _DEALLOCATE, b"LISTEN\0", b"PREPARE\0", *_FORGETTING))

_length = struct.Struct(">I").unpack_from


class Hooks(Protocol):
    """Who is told what was read."""

    def reports(self, body: bytes) -> None:
        """A parameter has another value."""

    def answered(self) -> None:
        """All that we asked ourselves."""

    def forgot(self) -> None:
        """All prepared statements."""

    def in_their_words(self, error: bytes) -> bytes:
        """An error message that speaks of statements by our names."""

    def hinted(self, error: bytes) -> bytes | None:
        """With what helps somebody who cannot write; None: as it is."""


class Replies:
    __slots__ = (
        "_began",
        "_held",
        "_hooks",
        "_lacking",
        "_ledger",
        "_own_bytes",
        "_parameters",
        "_passing",
        "failure",
        "is_first",
        "is_shut_down",
        "last_words",
        "own",
        "rows",
    )

    def __init__(self, ledger: Ledger, hooks: Hooks) -> None:
        self._ledger = ledger
        self._hooks = hooks
        self._held = bytearray()  # the beginning of a message that is read whole
        self._lacking = 0  # bytes of it to come, as far as it is known
        self._own_bytes = 0  # of the answers to what we asked ourselves, so far
        self._began = 0  # where the client's messages begin in what came last
        self._passing = 0  # bytes to come of a message that goes by
        self._parameters: bytes | None = None  # of a statement whose columns come next
        self.own = 0  # batches of ours whose answers come first
        self.rows: list[bytes] = []  # that they brought
        self.failure: Trouble | None = None  # of one of them
        self.is_first = True  # nothing has come for the client of now
        self.last_words = b""  # kept back: Postgres may have ended before it did anything for the client
        self.is_shut_down = False  # it has done nothing for the client, and ends because it was told to

    @property
    def is_between(self) -> bool:
        """The client has no message half."""
        return not self._passing

    def own_answers(self) -> tuple[Trouble | None, list[bytes]]:
        """The failure and the rows that there were, once."""
        failure, rows = self.failure, self.rows
        self._own_bytes = 0
        if failure is not None or rows:
            self.failure, self.rows = None, []
        return failure, rows

    def walk(self, room: memoryview, data: bytes | bytearray, end: int) -> memoryview | bytes:
        """What goes on to the client; `room` is a view of `data`."""
        if self._held or self.own:
            room, data, end = self._continued(room, data, end)
        begin = at = self._own(data, end) if self.own else 0
        if self._passing:
            at = min(self._passing, end)
            self._passing -= at
        self._began = at
        pieces: list[memoryview | bytes] = []
        describing = self._ledger.describing
        if data.startswith(ANSWERED, at, end) and self._ledger.is_parsing_unnamed:
            self._ledger.answered()
            at += len(ANSWERED)
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
                    pieces += (room[begin:at], instead)
                    begin = stop
            elif stop > end:
                self._passing = stop - end
            at = stop
        self.is_first = self.is_first and at == self._began
        if not pieces:
            return room[begin:end]
        pieces.append(room[begin:end])
        return b"".join(pieces)

    def _continued(
        self, room: memoryview, data: bytes | bytearray, end: int
    ) -> tuple[memoryview, bytes | bytearray, int]:
        """With what is held of a message; nothing while that lacks more than what came."""
        if self.own:
            self._count_own(end)
        if not self._held:
            return room, data, end
        self._held += room[:end]
        self._lacking -= end
        if self._lacking > 0:
            return room, data, 0
        data, self._held = self._held, bytearray()
        return memoryview(data), data, len(data)

    def _hold(self, data: bytes | bytearray, at: int, end: int) -> int:
        """Where what may go on ends."""
        self._held = bytearray(data[at:end])
        self._lacking = (at + 1 + _length(data, at + 1)[0] if end - at >= _HEAD else at + _HEAD) - end
        return at

    def _count_own(self, count: int) -> None:
        self._own_bytes += count
        if self._own_bytes > MOST_OWN:
            raise Malformed(f"the answers to the gateway's own questions are longer than {MOST_OWN} bytes")

    def _own(self, data: bytes | bytearray, end: int) -> int:
        """Read the answers to what we asked; where they end."""
        at = 0
        while self.own and at < end:
            stop = at + 1 + _length(data, at + 1)[0] if end - at >= _HEAD else end + 1
            if stop > end:
                self._hold(data, at, end)
                return end
            kind = data[at]
            if kind == _READY:
                self.own -= 1
                self._ledger.status = data[at + _HEAD]
            elif kind == _ROW:
                self.rows.append(bytes(data[at + _HEAD : stop]))
            elif kind == _PARAMETER:
                self._hooks.reports(bytes(data[at + _HEAD : stop]))
            elif kind == _ERROR:
                self.failure = messages.trouble(bytes(data[at + _HEAD : stop]))
            at = stop
        if not self.own:
            self._hooks.answered()
        return at

    def _read(self, kind: int, data: bytes | bytearray, at: int, stop: int) -> bytes | None:
        """What the client hears in its place; None: the message itself."""
        if kind == _READY:
            self._ledger.ready(data[at + _HEAD])
        elif kind == _COMPLETE:
            tag = bytes(data[at + _HEAD : stop])
            if tag in _TAGS:
                self._complete(tag)
        elif kind in _DONE:
            answered = self._ledger.answered()
            if answered in _OURS:
                return b""
        elif kind == _ERROR:
            return self._error(bytes(data[at:stop]), is_first=self.is_first and at == self._began)
        elif kind == _PARAMETER:
            self._hooks.reports(bytes(data[at + _HEAD : stop]))
        elif kind == _COPY_IN:
            self._ledger.copy_in()
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
            self._ledger.describing.popleft()(shape(self._parameters, body))
            self._parameters = None
        return b"" if awaited is Awaited.DESCRIBE_OURS else None

    def _complete(self, tag: bytes) -> None:
        ledger = self._ledger
        if tag == _SET and ledger.local_sets:
            ledger.local_sets -= 1
        elif tag in (_SET, _RESET):
            ledger.is_touched = True
        elif tag == _DEALLOCATE:
            ledger.deallocated()
        elif tag in _FORGETTING:
            self._hooks.forgot()
            ledger.is_touched = True
        else:
            ledger.is_dirty = ledger.prepares = True

    def _error(self, message: bytes, *, is_first: bool) -> bytes | None:
        trouble = messages.trouble(message[_HEAD:])
        if trouble.severity in ("FATAL", "PANIC"):
            self.is_shut_down = is_first and trouble.code == _SHUT_DOWN
            self.last_words = message
            return b""
        refused = self._refused(trouble.code, message)
        self._ledger.failed()
        if refused is not None:
            return refused
        is_ours = _OUR_NAME in message
        if (is_ours and trouble.code == _NO_STATEMENT) or _OLD_PLAN in message:
            self._ledger.doubt()
        if trouble.code == _READ_ONLY:
            return self._hooks.hinted(message)
        return self._hooks.in_their_words(message) if is_ours else None

    def _refused(self, code: str, message: bytes) -> bytes | None:
        """Our words, when it is the error that we brought about."""
        self._parameters = None
        undo = self._ledger.expected[0][1] if self._ledger.expected else None
        if isinstance(undo, Words) and code == SYNTAX_ERROR and NEAR in message:
            return undo.error
        return None
