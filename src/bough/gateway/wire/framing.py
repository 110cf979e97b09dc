"""Cutting a stream into messages: a type, a length, a body."""

from typing import NamedTuple

from bough.gateway.wire.malformed import Malformed

HEADER = 5  # type and length
_LENGTH = 4  # counts itself


class Message(NamedTuple):
    type: bytes
    body: bytes

    def encoded(self) -> bytes:
        return self.type + (len(self.body) + _LENGTH).to_bytes(4) + self.body


def body_length(head: bytes | bytearray, limit: int) -> int:
    """How many bytes follow a message's head; `limit` is for the length as it is written there."""
    length = int.from_bytes(head[1:HEADER])
    if not _LENGTH <= length <= limit:
        raise Malformed(f"a message says it is {length} bytes long")
    return length - _LENGTH


class Framing:
    """Keeps what is not a whole message yet: never more than `limit` and a feed, with `next` asked after each."""

    __slots__ = ("_held", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()

    def __len__(self) -> int:
        """How many bytes are kept."""
        return len(self._held)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        self._held += data

    def next(self) -> Message | None:
        """The next whole message, when there is one; a wrong length is known before its message has come."""
        held = self._held
        if len(held) < HEADER:
            return None
        end = HEADER + body_length(held, self._limit)
        if len(held) < end:
            return None
        message = Message(bytes(held[:1]), bytes(held[HEADER:end]))
        del held[:end]
        return message

    def rest(self) -> bytes:
        """What came after the last message; the framing has it no longer."""
        rest = bytes(self._held)
        self._held.clear()
        return rest
