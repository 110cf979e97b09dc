"""Cutting a stream into messages: a type, a length, a body."""

from typing import NamedTuple

from bough.gateway.wire.protocol_error import ProtocolError

HEADER_LENGTH = 5  # type and length
_LENGTH = 4  # counts itself


class Message(NamedTuple):
    type: bytes
    body: bytes

    def encode(self) -> bytes:
        return self.type + (len(self.body) + _LENGTH).to_bytes(4) + self.body


def parse_body_length(head: bytes | bytearray, limit: int) -> int:
    """How many bytes follow a message's head; `limit` is for the length as it is written there."""
    length = int.from_bytes(head[1:HEADER_LENGTH])
    if not _LENGTH <= length <= limit:
        raise ProtocolError(f"a message says it is {length} bytes long")
    return length - _LENGTH


class MessageDecoder:
    """Keeps what is not a whole message yet: never more than `limit` and a feed, with `next` asked after each."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def __len__(self) -> int:
        """How many bytes are kept."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._buffer += data

    def next_message(self) -> Message | None:
        """The next whole message, when there is one; a wrong length is known before its message has come."""
        held = self._buffer
        if len(held) < HEADER_LENGTH:
            return None
        end = HEADER_LENGTH + parse_body_length(held, self._limit)
        if len(held) < end:
            return None
        message = Message(bytes(held[:1]), bytes(held[HEADER_LENGTH:end]))
        del held[:end]
        return message

    def take_remainder(self) -> bytes:
        """What came after the last message; the framing has it no longer."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest
