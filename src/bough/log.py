"""Structured logging: one JSON object per event, with request and operation ids, and with secrets redacted.

`bind(request_id=…)` adds fields to all events of the current task.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog

bind = structlog.contextvars.bind_contextvars
bound = structlog.contextvars.bound_contextvars

_SECRET_NAMES = re.compile(r"password|secret|token|authorization|api_key|verifier|connection_uri", re.IGNORECASE)
_SECRET_TEXT = (
    (re.compile(r"((?:postgres(?:ql)?|smtps?)://[^:/@\s]+:)[^@\s]+(@)"), r"\1***\2"),
    (re.compile(r"\b(bough_[a-z]+_[A-Za-z0-9]{6})[A-Za-z0-9_-]{10,}"), r"\1***"),
    (re.compile(r"SCRAM-SHA-256\$\S+"), "SCRAM-SHA-256$***"),
)


def redact(text: str) -> str:
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def _redact_event(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if _SECRET_NAMES.search(name):
            event[name] = "***"
        elif isinstance(value, str):
            event[name] = redact(value)
    return event


def configure(level: str, path: Path | None = None) -> None:
    """Log to `path`, or to standard error without one."""
    stream = path.open("a", buffering=1) if path else sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact_event,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )


def get_logger(**fields: Any) -> Any:
    return structlog.get_logger(**fields)
