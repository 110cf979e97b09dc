"""Messages of Postgres in a form in which those of two sessions can be compared."""

import struct
from typing import Any

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message


def normalize_message(heard: Message) -> tuple[str, Any]:
    """A message without what may differ: numbers of tables, and the lines of Postgres's source in errors."""
    if heard.type in (messages.ERROR_RESPONSE, messages.NOTICE_RESPONSE):
        trouble = messages.parse_error_response(heard.body)
        return heard.type.decode(), (trouble.severity, trouble.sqlstate, trouble.message)
    if heard.type == b"T":
        return "T", _columns(heard.body)
    return heard.type.decode(), heard.body


def _columns(body: bytes) -> list[tuple[Any, ...]]:
    columns, rest = [], body[2:]
    for _ in range(int.from_bytes(body[:2])):
        name, _, rest = rest.partition(b"\0")
        columns.append((name, *struct.unpack_from("!IhiH", rest, 6)))
        rest = rest[18:]
    return columns
