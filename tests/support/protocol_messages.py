"""What a client may say to Postgres, as bytes: one or more whole messages that can be put together at will."""

import struct

from bough.gateway.wire.framing import Message


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def message(kind: bytes, body: bytes = b"") -> bytes:
    return Message(kind, body).encode()


def query(sql: str) -> bytes:
    return message(b"Q", _text(sql))


def parse(name: str, sql: str, *types: int) -> bytes:
    return message(b"P", _text(name) + _text(sql) + struct.pack(f"!H{len(types)}I", len(types), *types))


def bind(portal: str, name: str, *values: str | bytes | None) -> bytes:
    """All of them as text, and text back."""
    given = b"".join(_value(value) for value in values)
    return message(b"B", _text(portal) + _text(name) + b"\0\0" + struct.pack("!H", len(values)) + given + b"\0\0")


def _value(value: str | bytes | None) -> bytes:
    if value is None:
        return struct.pack("!i", -1)
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("!i", len(data)) + data


def describe(kind: str, name: str) -> bytes:
    return message(b"D", kind.encode() + _text(name))


def execute(portal: str = "", most: int = 0) -> bytes:
    return message(b"E", _text(portal) + struct.pack("!i", most))


def close(kind: str, name: str) -> bytes:
    return message(b"C", kind.encode() + _text(name))


def function_call(oid: int, *values: str | None) -> bytes:
    given = struct.pack("!H", len(values)) + b"".join(_value(value) for value in values)
    return message(b"F", struct.pack("!I", oid) + b"\0\0" + given + b"\0\0")


def copy_data(data: bytes) -> bytes:
    return message(b"d", data)


def copy_fail(why: str) -> bytes:
    return message(b"f", _text(why))


SYNC, FLUSH, TERMINATE, COPY_DONE = message(b"S"), message(b"H"), message(b"X"), message(b"c")


def bind_and_execute(name: str, *values: str | None) -> bytes:
    """A statement that was prepared, bound to the unnamed portal and executed."""
    return bind("", name, *values) + execute()


def extended_query(sql: str, *values: str | None) -> bytes:
    """A text as drivers send it: prepared without a name, bound, described and executed."""
    return parse("", sql) + bind("", "", *values) + describe("P", "") + execute()


def count_ready_for_query(data: bytes) -> int:
    """How many times Postgres will say ReadyForQuery to these."""
    count = at = 0
    while at < len(data):
        count += data[at : at + 1] in (b"S", b"Q", b"F")
        at += 1 + int.from_bytes(data[at + 1 : at + 5])
    return count


def cancel_request(key: bytes) -> bytes:
    return (len(key) + 8).to_bytes(4) + (80877102).to_bytes(4) + key
