"""Splits a byte stream into messages: a type, a length and a body."""

from typing import NamedTuple

from bough.gateway.wire.protocol_error import ProtocolError

HEADER_LENGTH = 5  # type and length
_LENGTH_BYTES = 4  # the length includes itself


class Message(NamedTuple):
    type: bytes
    body: bytes

    def encode(self) -> bytes:
        return self.type + (len(self.body) + _LENGTH_BYTES).to_bytes(4) + self.body


def parse_body_length(header: bytes | bytearray, limit: int) -> int:
    """Return how many bytes follow the header; `limit` applies to the length field."""
    length = int.from_bytes(header[1:HEADER_LENGTH])
    if not _LENGTH_BYTES <= length <= limit:
        raise ProtocolError(f"a message has an invalid length of {length} bytes")
    return length - _LENGTH_BYTES


class MessageDecoder:
    """Buffers incomplete messages: at most `limit` plus one feed, if all messages are taken after each feed."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def __len__(self) -> int:
        """The number of buffered bytes."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._buffer += data

    def next_message(self) -> Message | None:
        """Return the next complete message, or None. An invalid length raises at once."""
        buffer = self._buffer
        if len(buffer) < HEADER_LENGTH:
            return None
        end = HEADER_LENGTH + parse_body_length(buffer, self._limit)
        if len(buffer) < end:
            return None
        message = Message(bytes(buffer[:1]), bytes(buffer[HEADER_LENGTH:end]))
        del buffer[:end]
        return message

    def take_remainder(self) -> bytes:
        """Return and clear the bytes after the last message."""
        remainder = bytes(self._buffer)
        self._buffer.clear()
        return remainder
