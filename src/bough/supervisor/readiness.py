"""How a process tells its parent that it is ready, or why it is not.

It writes one line of JSON to an inherited pipe: `{"ready": true}` or `{"error": "message"}`. A pipe that closes
without a line means that the process died.
"""

import json
import os


def report_ready(fd: int) -> None:
    _write(fd, {"ready": True})


def report_error(fd: int, message: str) -> None:
    _write(fd, {"error": message})


def _write(fd: int, content: dict[str, object]) -> None:
    try:
        os.write(fd, json.dumps(content).encode() + b"\n")
        os.close(fd)
    except OSError:
        pass  # the reader is gone, or the report was already written


def read_report(fd: int) -> bytes:
    """Read the pipe until it closes."""
    with os.fdopen(fd, "rb") as pipe:
        return pipe.read()


def parse_error(line: bytes) -> str | None:
    """Return the error of a failed start, "" when the process died without a report, None when it is ready."""
    if not line.strip():
        return ""
    report = json.loads(line)
    return None if report.get("ready") else str(report.get("error", ""))
