"""A hint for whoever cannot write because the database is full, put into Postgres's own error. Bytes in, bytes out."""

READ_ONLY_SQLSTATE = b"25006"  # SQLSTATE read_only_sql_transaction
_MARK = b"\0C" + READ_ONLY_SQLSTATE + b"\0"
_HEAD = 5
_ERROR = ord("E")
# Every message that a server sends after its greeting.
_KINDS = frozenset(b"123ACDEGHINRSTVWZcdnstv")


def may_have_read_only_error(data: bytes | bytearray, end: int) -> bool:
    """Whether such an error may be in what begins here: most pieces end with this look."""
    return data.find(_MARK, 0, end) >= 0


def add_hints(data: bytes, hint: bytes) -> bytes | None:
    """The piece with a hint in each such error; None when it has none, or is not whole messages from end to end."""
    messages = _split_messages(data)
    if messages is None:
        return None
    told = [_add_hint_to_error(message, hint) for message in messages]
    return b"".join(told) if told != messages else None


def add_hint(error: bytes, hint: bytes) -> bytes | None:
    """An error message with the hint; None when it is another error, or has a hint already."""
    body = error[_HEAD:]
    fields = body[:-1].split(b"\0")
    if not body.endswith(b"\0\0") or not all(fields[:-1]):
        return None
    if not {b"C" + READ_ONLY_SQLSTATE, b"VERROR"} <= set(fields) or any(field.startswith(b"H") for field in fields):
        return None
    body = body[:-1] + b"H" + hint + b"\0\0"
    return error[:1] + (len(body) + 4).to_bytes(4) + body


def _add_hint_to_error(message: bytes, hint: bytes) -> bytes:
    return (message[0] == _ERROR and add_hint(message, hint)) or message


def _split_messages(piece: bytes) -> list[bytes] | None:
    found: list[bytes] = []
    at, end = 0, len(piece)
    while at < end:
        stop = at + 1 + int.from_bytes(piece[at + 1 : at + _HEAD])
        if piece[at] not in _KINDS or not at + _HEAD <= stop <= end:
            return None
        found.append(piece[at:stop])
        at = stop
    return found
