"""The messages of clients: their types, the limits on their length, and the batch that drivers send most often."""

import struct

from bough.gateway.wire.framing import HEADER_LENGTH
from bough.gateway.wire.protocol_error import ProtocolError

BIND, CALL, CLOSE, COPY_DATA, COPY_DONE, COPY_FAIL, DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY, SYNC = b"BFCdcfDEHPQS"
TERMINATE = b"X"[0]
BATCH_ENDS = frozenset((CALL, QUERY, SYNC))
_COPY_MESSAGES = frozenset((COPY_DATA, COPY_DONE, COPY_FAIL))
_STREAMABLE = frozenset((BIND, CALL, COPY_DATA, PARSE, QUERY))
_KNOWN = frozenset(b"BFCdcfDEHPQSX")

MAX_BUFFERED_BYTES = 65536  # of one message
MAX_STATEMENT_BYTES = 1 << 20  # of a named prepared statement
_MAX_NAME_BYTES = 4096  # within which the names at the start of a message must end
_MAX_LENGTH = (1 << 30) - 1  # as in Postgres

# The parts of the batch that drivers send most often.
_MIN_UNNAMED_LENGTH = 7  # bytes of a Parse or Bind without names, up to its query or its parameter formats
_BATCH_DESCRIBE, _BATCH_EXECUTE, _BATCH_SYNC = b"D\0\0\0\x06P\0", b"E\0\0\0\x09\0\0\0\0\0", b"S\0\0\0\x04"
_BATCH_TAILS = frozenset((_BATCH_DESCRIBE + _BATCH_EXECUTE + _BATCH_SYNC, _BATCH_EXECUTE + _BATCH_SYNC))

Data = bytes | bytearray
MessageSpan = tuple[Data, int, int, int]  # the start and end of a message, and the end of its received part

unpack_header = struct.Struct(">BI").unpack_from
_unpack_length = struct.Struct(">I").unpack_from


def check_header(kind: int, length: int) -> None:
    if kind not in _KNOWN:
        raise ProtocolError(f"invalid frontend message type {kind}")
    if not 4 <= length <= (_MAX_LENGTH if kind in _STREAMABLE else MAX_BUFFERED_BYTES):
        raise ProtocolError(f"a message has an invalid length of {length} bytes")


def needs_rest(kind: int, length: int, available: int) -> bool:
    """Whether a message must be complete before it is translated."""
    if kind == PARSE:
        return length <= MAX_STATEMENT_BYTES or available < _MAX_NAME_BYTES
    return length <= MAX_BUFFERED_BYTES or available < _MAX_NAME_BYTES


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


def strip_copy_messages(data: bytes) -> bytes:
    """Drop the COPY data of a query that was not run."""
    while len(data) >= HEADER_LENGTH and data[0] in _COPY_MESSAGES:
        data = data[1 + unpack_header(data)[1] :]
    return data
