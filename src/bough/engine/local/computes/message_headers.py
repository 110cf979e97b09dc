"""The messages of a server, by their heads: which come, how long they say they are, and which types rows have.

Our sessions are known by the socket and need no password; our statements answer with plain values, and with no array
or record, whose length the driver would believe.
"""

import struct
from dataclasses import dataclass

MAX_STARTUP_MESSAGE_BYTES = 16 * 1024  # bytes of one message before the server is ready
MAX_ROW_DESCRIPTION_BYTES = 16 * 1024  # bytes of what describes rows; ours have a few columns

_HEAD = struct.Struct("!cI")
_WORD = struct.Struct("!I")
_COUNT = struct.Struct("!H")
_COLUMN = struct.Struct("!IHIHIH")  # after its name: table, number, type, size, modifier, format
_TYPE = 2
_AUTHENTICATION, _READY, _DESCRIPTION = b"R", b"Z", b"T"
_GREETING = frozenset((_AUTHENTICATION, _READY, b"S", b"K", b"E", b"N", b"v"))
_PROVED = _WORD.pack(0)

# bool, bytea, char, name, int8, int2, int4, text, oid, xid, float4, float8, timestamptz, void, pg_lsn
_PLAIN = frozenset((16, 17, 18, 19, 20, 21, 23, 25, 26, 28, 700, 701, 1184, 2278, 3220))


class UnexpectedMessage(ConnectionError):
    """The server sent something that no session of ours takes."""


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Of an answer."""

    bytes: int
    messages: int  # each takes the driver more room, and us more time, than its bytes say


class MessageHeaderReader:
    def __init__(self, limits: ResponseLimits) -> None:
        self.is_ready = False
        self.message_count = 0  # messages since the last statement began
        self._limits = limits
        self._skips = 0  # bytes of a message that is of no interest
        self._rest = b""  # the beginning of one that is not whole

    def feed(self, data: bytes) -> None:
        """Raises Unexpected."""
        skipped = min(self._skips, len(data))
        self._skips -= skipped
        left = self._rest + data[skipped:]
        at = 0
        while len(left) - at >= _HEAD.size:
            kind, length = _HEAD.unpack_from(left, at)
            self._check(kind, length)
            end = at + 1 + length
            if self.is_ready and kind != _DESCRIPTION:
                self._skips = max(0, end - len(left))
            elif end > len(left):
                break
            else:
                self._inspect(kind, left[at + _HEAD.size : end])
            at = end
        self._rest = left[at:]

    def _check(self, kind: bytes, length: int) -> None:
        self.message_count += 1
        if self.message_count > self._limits.messages:
            raise UnexpectedMessage(f"it sent more than {self._limits.messages} messages for one statement")
        if not self.is_ready:
            if kind not in _GREETING or length > MAX_STARTUP_MESSAGE_BYTES:
                raise UnexpectedMessage("it does not greet as Postgres does")
        elif kind == _AUTHENTICATION:
            raise UnexpectedMessage("it asks for a password at the wrong time")
        elif length > (MAX_ROW_DESCRIPTION_BYTES if kind == _DESCRIPTION else self._limits.bytes):
            raise UnexpectedMessage(f"it announced a message of {length} bytes")
        if length < _WORD.size:
            raise UnexpectedMessage("it announced a message that is shorter than its head")

    def _inspect(self, kind: bytes, body: bytes) -> None:
        if kind == _AUTHENTICATION and body != _PROVED:
            raise UnexpectedMessage("it asks for a password")
        if kind == _READY:
            self.is_ready = True
        if kind == _DESCRIPTION:
            _check_types(body)


def _check_types(body: bytes) -> None:
    try:
        (count,) = _COUNT.unpack_from(body)
        at = _COUNT.size
        for _ in range(count):
            at = body.index(b"\0", at) + 1
            kind = _COLUMN.unpack_from(body, at)[_TYPE]
            if kind not in _PLAIN:
                raise UnexpectedMessage(f"it answers with the type {kind}, which was not asked for")
            at += _COLUMN.size
    except (struct.error, ValueError):
        raise UnexpectedMessage("it describes rows as Postgres does not") from None
