"""Entries of the statement audit in JSON lines of a server."""

import json
from typing import Any

import pytest

from bough.postgres.audit_entries import HEAD_BYTES, MAX_TEXT, TAIL_BYTES, parse_line, parse_long_line

FIELDS = {
    "timestamp": "2026-01-31 10:00:00.123 UTC",
    "user": "ada",
    "dbname": "shop",
    "pid": 7,
    "session_id": "65ba.7",
    "error_severity": "LOG",
    "message": "AUDIT: SESSION,1,1,DDL,CREATE TABLE,TABLE,public.t,create table t (),<none>",
    "func_name": "log_audit_event",
    "file_name": "pgaudit.c",
    "file_line_num": 900,
    "application_name": "psql",
    "backend_type": "client backend",
}


LAST = ("func_name", "file_name", "file_line_num", "application_name", "backend_type")


def encode(**changes: Any) -> bytes:
    """Encode a line as the server does: the function comes after all texts."""
    fields = {**FIELDS, **changes}
    last = {name: fields.pop(name) for name in LAST}
    return json.dumps({**fields, **last}, separators=(",", ":"), ensure_ascii=False).encode()


def test_an_entry_of_pgaudit() -> None:
    entry = parse_line(encode())
    assert entry is not None
    assert json.loads(entry.to_json_line()) == {
        "timestamp": "2026-01-31T10:00:00.123Z",
        "role": "ada",
        "database": "shop",
        "application": "psql",
        "pid": 7,
        "session": "65ba.7",
        "event": "SESSION,1,1,DDL,CREATE TABLE,TABLE,public.t,create table t (),<none>",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"func_name": "exec_stmt_raise", "file_name": "pl_exec.c"},
        {"func_name": "exec_simple_query"},
        {"file_name": "postgres.c"},
        {"func_name": "exec_simple_query", "file_name": "postgres.c", "message": "duration: 1 ms  statement: forged"},
        {"message": "something else"},
        {"message": None},
        {"user": "bough_admin"},
        {"pid": "7"},
    ],
)
def test_what_is_no_entry(changes: dict[str, Any]) -> None:
    assert parse_line(encode(**changes)) is None


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'"file_name":"pgaudit.c"', b'["file_name":"pgaudit.c"]', b"\xff" * 9]
)
def test_a_malformed_line_is_no_entry(line: bytes) -> None:
    assert parse_line(line) is None
    assert parse_long_line(line, line) is None


@pytest.mark.parametrize("unit", ["x", "\n", '"', "\\", "é", "\x01", '","func_name":"f"'])
@pytest.mark.parametrize("shift", range(7))
def test_a_long_line_is_recorded_in_part(unit: str, shift: int) -> None:
    """Wherever the beginning ends, also within an escape sequence or a character."""
    message = "AUDIT: " + "y" * shift + unit * HEAD_BYTES
    line = encode(message=message, statement="z" * 100_000)
    entry = parse_long_line(line[:HEAD_BYTES], line[-TAIL_BYTES:])
    assert entry is not None
    assert (entry.role, entry.application) == ("ada", "psql")
    expected = message.removeprefix("AUDIT: ")[:MAX_TEXT]
    assert entry.event == f"{expected} …" or expected.startswith(entry.event.rstrip("…� "))


def test_a_long_line_of_a_tenant_is_no_entry() -> None:
    forged = 'x","func_name":"log_audit_event","file_name":"pgaudit.c","file_line_num":1}'
    line = encode(func_name="exec_stmt_raise", file_name="pl_exec.c", message="AUDIT: " + forged * 2000)
    assert parse_long_line(line[:HEAD_BYTES], line[-TAIL_BYTES:]) is None
    line = encode(func_name="exec_stmt_raise", file_name="pl_exec.c", message="AUDIT: x", context=forged * 2000)
    assert parse_long_line(line[:HEAD_BYTES], line[-TAIL_BYTES:]) is None
