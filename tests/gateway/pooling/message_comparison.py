"""Messages of Postgres in a form in which two sessions can be compared."""

import struct
from typing import Any

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message


def normalize_message(received: Message) -> tuple[str, Any]:
    """Remove what may differ: table oids, and the source lines in errors."""
    if received.type in (messages.ERROR_RESPONSE, messages.NOTICE_RESPONSE):
        error = messages.parse_error_response(received.body)
        return received.type.decode(), (error.severity, error.sqlstate, error.message)
    if received.type == b"T":
        return "T", _columns(received.body)
    return received.type.decode(), received.body


def _columns(body: bytes) -> list[tuple[Any, ...]]:
    columns, rest = [], body[2:]
    for _ in range(int.from_bytes(body[:2])):
        name, _, rest = rest.partition(b"\0")
        columns.append((name, *struct.unpack_from("!IhiH", rest, 6)))
        rest = rest[18:]
    return columns
