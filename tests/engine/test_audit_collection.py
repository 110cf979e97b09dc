"""What a compute's user writes into the log of an audited server stops no collection and fills no disk."""

import json
from pathlib import Path

import pytest

from bough.engine.local.computes import audit_collection
from bough.engine.local.computes.audit_collection import AuditRetention
from bough.postgres.statement_audit import JSON_FILE

RETENTION = AuditRetention(file_bytes=1024**2, files_kept=2)


def encode(message: str) -> bytes:
    fields = {
        "timestamp": "2026-01-31 10:00:00.123 UTC",
        "user": "ada",
        "pid": 7,
        "message": f"AUDIT: {message}",
        "func_name": "log_audit_event",
        "file_name": "pgaudit.c",
        "file_line_num": 900,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def append(folder: Path, data: bytes) -> None:
    with (folder / JSON_FILE).open("ab") as file:
        file.write(data)


def read_events(folder: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (folder / "audit").read_text().splitlines()]


def collect(folder: Path) -> int:
    return audit_collection.collect(folder, folder / "audit", RETENTION)


@pytest.mark.parametrize(
    "line",
    [
        b'{"file_name":"pgaudit.c","x":' + b"[" * 100_000,
        b'{"file_name":["pgaudit.c"],"func_name":{"file_name":"pgaudit.c"}}',
        b'["file_name":"pgaudit.c"]',
        b'"file_name":"pgaudit.c"',
        b'{"file_name":"pgaudit.c","pid":' + b"9" * 10_000 + b"}",
        b"\xff\x00" * 1000,
    ],
    ids=["nested", "lists", "array", "text", "number", "bytes"],
)
def test_a_forged_line_is_left_out_and_the_next_one_is_read(tmp_path: Path, line: bytes) -> None:
    append(tmp_path, line + b"\n" + encode("one"))
    assert collect(tmp_path) == 1
    assert read_events(tmp_path) == ["one"]


def test_a_long_line_is_read_in_several_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_collection, "_BLOCK", 1000)
    monkeypatch.setattr(audit_collection, "_PASS_BYTES", 3000)
    append(tmp_path, encode("one"))
    line = encode("x" * 20_000)
    append(tmp_path, line[:9000])
    for _ in range(5):
        collect(tmp_path)
    assert read_events(tmp_path) == ["one"]
    append(tmp_path, line[9000:] + encode("two"))
    for _ in range(8):
        collect(tmp_path)
    one, _long, two = read_events(tmp_path)
    assert (one, two) == ("one", "two")


def test_a_log_that_grows_too_fast_is_discarded_and_that_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_collection, "_MAX_UNREAD", 10_000)
    append(tmp_path, encode("one"))
    collect(tmp_path)
    append(tmp_path, b"x" * 20_000)
    collect(tmp_path)
    append(tmp_path, b"\n" + encode("two"))
    collect(tmp_path)
    one, discarded, two = read_events(tmp_path)
    assert (one, two) == ("one", "two")
    assert discarded == "20000 bytes of the log were discarded, because it grew faster than it was read."
