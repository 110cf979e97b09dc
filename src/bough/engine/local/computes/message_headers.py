"""Check the headers of a server's messages: their types and lengths, and the column types of rows.

The platform's sessions use peer authentication and never send a password. Its queries return scalar values only, never
arrays or records, because the driver trusts the length that those announce.
"""

import struct
from dataclasses import dataclass

MAX_STARTUP_MESSAGE_BYTES = 16 * 1024  # of one message before the server is ready
MAX_ROW_DESCRIPTION_BYTES = 16 * 1024  # the platform's queries return few columns

_HEADER = struct.Struct("!cI")
_WORD = struct.Struct("!I")
_COUNT = struct.Struct("!H")
_COLUMN = struct.Struct("!IHIHIH")  # after the column's name: table, number, type, size, modifier, format
_TYPE_FIELD = 2
_AUTHENTICATION, _READY, _ROW_DESCRIPTION = b"R", b"Z", b"T"
_STARTUP_TYPES = frozenset((_AUTHENTICATION, _READY, b"S", b"K", b"E", b"N", b"v"))
_AUTHENTICATION_OK = _WORD.pack(0)

# bool, bytea, char, name, int8, int2, int4, text, oid, xid, float4, float8, timestamptz, void, pg_lsn
_SCALAR_TYPES = frozenset((16, 17, 18, 19, 20, 21, 23, 25, 26, 28, 700, 701, 1184, 2278, 3220))


class UnexpectedMessage(ConnectionError):
    """The server sent a message that the platform's sessions do not accept."""


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """Limits of the response to one statement."""

    bytes: int
    messages: int  # each message costs more memory and time than its bytes suggest


class MessageHeaderReader:
    def __init__(self, limits: ResponseLimits) -> None:
        self.is_ready = False
        self.message_count = 0  # since the current statement began
        self._limits = limits
        self._skip_bytes = 0  # rest of a message whose body is not checked
        self._incomplete = b""  # beginning of a message that is not complete

    def feed(self, data: bytes) -> None:
        """Check more data. Raise UnexpectedMessage."""
        skipped = min(self._skip_bytes, len(data))
        self._skip_bytes -= skipped
        buffer = self._incomplete + data[skipped:]
        offset = 0
        while len(buffer) - offset >= _HEADER.size:
            kind, length = _HEADER.unpack_from(buffer, offset)
            self._check(kind, length)
            end = offset + 1 + length
            if self.is_ready and kind != _ROW_DESCRIPTION:
                self._skip_bytes = max(0, end - len(buffer))
            elif end > len(buffer):
                break
            else:
                self._inspect(kind, buffer[offset + _HEADER.size : end])
            offset = end
        self._incomplete = buffer[offset:]

    def _check(self, kind: bytes, length: int) -> None:
        self.message_count += 1
        if self.message_count > self._limits.messages:
            raise UnexpectedMessage(f"it sent more than {self._limits.messages} messages for one statement")
        if not self.is_ready:
            if kind not in _STARTUP_TYPES or length > MAX_STARTUP_MESSAGE_BYTES:
                raise UnexpectedMessage("its startup messages are not those of Postgres")
        elif kind == _AUTHENTICATION:
            raise UnexpectedMessage("it asks for a password at the wrong time")
        elif length > (MAX_ROW_DESCRIPTION_BYTES if kind == _ROW_DESCRIPTION else self._limits.bytes):
            raise UnexpectedMessage(f"it announced a message of {length} bytes")
        if length < _WORD.size:
            raise UnexpectedMessage("it announced a message that is shorter than its header")

    def _inspect(self, kind: bytes, body: bytes) -> None:
        if kind == _AUTHENTICATION and body != _AUTHENTICATION_OK:
            raise UnexpectedMessage("it asks for a password")
        if kind == _READY:
            self.is_ready = True
        if kind == _ROW_DESCRIPTION:
            _check_types(body)


def _check_types(body: bytes) -> None:
    try:
        (count,) = _COUNT.unpack_from(body)
        offset = _COUNT.size
        for _ in range(count):
            offset = body.index(b"\0", offset) + 1
            kind = _COLUMN.unpack_from(body, offset)[_TYPE_FIELD]
            if kind not in _SCALAR_TYPES:
                raise UnexpectedMessage(f"it returned the unexpected type {kind}")
            offset += _COLUMN.size
    except (struct.error, ValueError):
        raise UnexpectedMessage("it sent an invalid row description") from None
