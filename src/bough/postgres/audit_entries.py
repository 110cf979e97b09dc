"""Finds the entries of the statement audit in a server's log of JSON lines.

An entry counts only if it names the C function that audits: a tenant chooses the text of a message, but not which
function of the server writes it, and cannot end a line within a message. Code under the compute's user id can write
anything to the file.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from bough.postgres import ADMIN_ROLE

MAX_TEXT = 16_384  # characters of a statement; the rest is omitted
HEAD_BYTES, TAIL_BYTES = 65_536, 4_096  # of a longer line; function and application come after the texts

# File and function of the server, and how their messages begin.
_SOURCES = {
    ("pgaudit.c", "log_audit_event"): ("AUDIT: ",),
    ("postgres.c", "exec_simple_query"): ("statement: ",),
    ("postgres.c", "exec_execute_message"): ("execute ",),
    ("fastpath.c", "HandleFunctionRequest"): ("fastpath function call: ",),
    ("postinit.c", "PerformAuthentication"): ("connection authorized: ",),
    ("postgres.c", "log_disconnections"): ("disconnection: ",),
}
_FILES = tuple(f'"file_name":"{file}"'.encode() for file in sorted({file for file, _ in _SOURCES}))
_MESSAGE = re.compile(r'"message":"(?P<text>(?:[^"\\]|\\.)*)')
_TAIL = re.compile(r'(?P<fields>,"func_name":"\w+","file_name":"[\w.]+","file_line_num":\d+[^\n]*\})\s*$')


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementEntry:
    timestamp: str  # ISO 8601, UTC
    role: str | None  # None: of a background worker
    database: str | None
    application: str | None
    pid: int
    session: str
    event: str  # what pgAudit or log_statement wrote
    parameters: str | None = None

    def to_json_line(self) -> bytes:
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def parse_line(line: bytes) -> StatementEntry | None:
    """Return the entry of a line, if it is one of the audit."""
    if not any(file in line for file in _FILES):
        return None
    try:
        fields = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return _parse_fields(fields) if isinstance(fields, dict) else None


def parse_long_line(head: bytes, tail: bytes) -> StatementEntry | None:
    """Return the entry of a line of which only the beginning and the end were kept."""
    text, end = head.decode("utf-8", "replace"), _TAIL.search(tail.decode("utf-8", "replace"))
    message = _MESSAGE.search(text)
    if end is None or message is None:
        return None
    # A truncated message ends within an escape sequence at worst, which the pattern leaves out or is cut off here.
    body = re.sub(r"\\u[0-9a-fA-F]{0,3}$", "", message["text"])
    try:
        fields = json.loads(f'{text[: message.start()]}"message":"{body}"{end["fields"]}')
    except (ValueError, RecursionError):
        return None
    return _parse_fields(fields) if isinstance(fields, dict) else None


def _parse_fields(fields: dict[str, Any]) -> StatementEntry | None:
    prefixes = _SOURCES.get((str(fields.get("file_name")), str(fields.get("func_name"))))
    message, pid = fields.get("message"), fields.get("pid")
    if prefixes is None or not isinstance(message, str) or not message.startswith(prefixes) or type(pid) is not int:
        return None
    if fields.get("user") == ADMIN_ROLE:  # the platform's own sessions
        return None
    return StatementEntry(
        timestamp=str(fields.get("timestamp", "")).replace(" UTC", "Z").replace(" ", "T"),
        role=_text(fields.get("user")),
        database=_text(fields.get("dbname")),
        application=_text(fields.get("application_name")),
        pid=pid,
        session=str(fields.get("session_id", ""))[:63],
        event=_shorten(message.removeprefix("AUDIT: ")),
        parameters=_text(fields.get("detail")),
    )


def _text(value: Any) -> str | None:
    return _shorten(value) if isinstance(value, str) else None


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …"
