"""Adds a hint to the error that Postgres reports for writes to a branch over its storage limit."""

from bough.gateway.wire.framing import HEADER_LENGTH

READ_ONLY_SQLSTATE = b"25006"  # read_only_sql_transaction
_SQLSTATE_FIELD = b"\0C" + READ_ONLY_SQLSTATE + b"\0"
_ERROR = ord("E")
# All message types that a server sends after its greeting.
_MESSAGE_TYPES = frozenset(b"123ACDEGHINRSTVWZcdnstv")


def may_have_read_only_error(data: bytes | bytearray, end: int) -> bool:
    """Whether the data may contain such an error. This fast check is sufficient for most data."""
    return data.find(_SQLSTATE_FIELD, 0, end) >= 0


def add_hints(data: bytes, hint: bytes) -> bytes | None:
    """Add the hint to each such error; None if there is none, or if the data is not a sequence of complete messages."""
    messages = _split_messages(data)
    if messages is None:
        return None
    hinted = [_add_hint_to_error(message, hint) for message in messages]
    return b"".join(hinted) if hinted != messages else None


def add_hint(error: bytes, hint: bytes) -> bytes | None:
    """Return the error message with the hint; None if it is another error or has a hint already."""
    body = error[HEADER_LENGTH:]
    fields = body[:-1].split(b"\0")
    if not body.endswith(b"\0\0") or not all(fields[:-1]):
        return None
    if not {b"C" + READ_ONLY_SQLSTATE, b"VERROR"} <= set(fields) or any(field.startswith(b"H") for field in fields):
        return None
    body = body[:-1] + b"H" + hint + b"\0\0"
    return error[:1] + (len(body) + 4).to_bytes(4) + body


def _add_hint_to_error(message: bytes, hint: bytes) -> bytes:
    return (message[0] == _ERROR and add_hint(message, hint)) or message


def _split_messages(data: bytes) -> list[bytes] | None:
    messages: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        stop = at + 1 + int.from_bytes(data[at + 1 : at + HEADER_LENGTH])
        if data[at] not in _MESSAGE_TYPES or not at + HEADER_LENGTH <= stop <= end:
            return None
        messages.append(data[at:stop])
        at = stop
    return messages
