"""How a process tells the one that started it that it is ready, or why it is not.

One line of JSON through an inherited pipe: `{"ready": true}` or `{"error": "sentence"}`. A pipe
that closes without a line means that the process died.
"""

import json
import os


def report_ready(fd: int) -> None:
    _write(fd, {"ready": True})


def report_error(fd: int, sentence: str) -> None:
    _write(fd, {"error": sentence})


def _write(fd: int, message: dict[str, object]) -> None:
    try:
        os.write(fd, json.dumps(message).encode() + b"\n")
        os.close(fd)
    except OSError:
        pass  # nobody listens any more, or it was told already


def read_report(fd: int) -> bytes:
    """Everything that comes through the pipe until it closes."""
    with os.fdopen(fd, "rb") as pipe:
        return pipe.read()


def parse_error(line: bytes) -> str | None:
    """The sentence of a failed start, "" when the process died without a word, None when it is ready."""
    if not line.strip():
        return ""
    message = json.loads(line)
    return None if message.get("ready") else str(message.get("error", ""))
