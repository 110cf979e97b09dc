"""Encodes the messages that clients send, to be concatenated freely."""

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
    """Use the text format for parameters and results."""
    encoded = b"".join(_value(value) for value in values)
    return message(b"B", _text(portal) + _text(name) + b"\0\0" + struct.pack("!H", len(values)) + encoded + b"\0\0")


def _value(value: str | bytes | None) -> bytes:
    if value is None:
        return struct.pack("!i", -1)
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("!i", len(data)) + data


def describe(kind: str, name: str) -> bytes:
    return message(b"D", kind.encode() + _text(name))


def execute(portal: str = "", max_rows: int = 0) -> bytes:
    return message(b"E", _text(portal) + struct.pack("!i", max_rows))


def close(kind: str, name: str) -> bytes:
    return message(b"C", kind.encode() + _text(name))


def function_call(oid: int, *values: str | None) -> bytes:
    encoded = struct.pack("!H", len(values)) + b"".join(_value(value) for value in values)
    return message(b"F", struct.pack("!I", oid) + b"\0\0" + encoded + b"\0\0")


def copy_data(data: bytes) -> bytes:
    return message(b"d", data)


def copy_fail(reason: str) -> bytes:
    return message(b"f", _text(reason))


SYNC, FLUSH, TERMINATE, COPY_DONE = message(b"S"), message(b"H"), message(b"X"), message(b"c")


def bind_and_execute(name: str, *values: str | None) -> bytes:
    """Bind a prepared statement to the unnamed portal and execute it."""
    return bind("", name, *values) + execute()


def extended_query(sql: str, *values: str | None) -> bytes:
    """Parse, bind, describe and execute an unnamed statement, as drivers do."""
    return parse("", sql) + bind("", "", *values) + describe("P", "") + execute()


def count_ready_for_query(data: bytes) -> int:
    """Return how many ReadyForQuery messages Postgres sends for these messages."""
    count = at = 0
    while at < len(data):
        count += data[at : at + 1] in (b"S", b"Q", b"F")
        at += 1 + int.from_bytes(data[at + 1 : at + 5])
    return count


def cancel_request(key: bytes) -> bytes:
    return (len(key) + 8).to_bytes(4) + (80877102).to_bytes(4) + key
