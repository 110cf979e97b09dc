"""The log of a compute, and the reason it contains for a failed start."""

import re
from pathlib import Path

from bough import log_rotation
from bough.engine.port import EngineError
from bough.postgres import recovery

START_MARKER = "bough starts the compute"
_TAIL_BYTES = 64 * 1024
# Matches lines of the server itself. Lines of sessions, which it rejects while it starts, have a role before the level.
# Audited servers write a SQLSTATE before the text.
_LINE = re.compile(r"(?:[^\[]*\[\d+\] )?(?P<level>LOG|ERROR|FATAL|PANIC):\s+(?:[0-9A-Z]{5}: )?(?P<text>.*)")

# Transient errors, such as remaining children of a killed postmaster, or a concurrent start.
_TRANSIENT = (
    "pre-existing shared memory block",
    "lock file",
    "is shutting down",
    "Cannot allocate memory",
    "could not fork",
)
_INSUFFICIENT_SETTINGS = "insufficient parameter settings"
# A read replica logs these all the time while its primary is suspended; they do not prevent a start.
_WAL_RECEIVER_MESSAGES = (
    "could not connect to the primary",
    "could not receive data",
    "could not start WAL streaming",
    "terminating walreceiver",
)


class WalEndedBeforeTarget(EngineError):
    """The WAL ended before the recovery target was reached."""


class TargetBeforeConsistency(EngineError):
    """The recovery target lies before the point at which the data directory is consistent."""


class InsufficientStandbySettings(EngineError):
    """A setting of a read replica is lower than on its primary. Its control file now contains the required values."""


def read_start_error(log: Path, data: Path) -> EngineError:
    """Return why the last start failed, in one sentence without internal paths."""
    lines = _read_since_start(log)
    message = _find_fatal(lines) or _find_fork_failure(lines) or _find_early_output(lines)
    if message is None:
        return EngineError("The compute's process was killed.")
    public = message.replace(str(data), "the data directory").replace(str(data.parent), "the volume").rstrip(".")
    sentence = f"The compute could not start: {public}."
    if _INSUFFICIENT_SETTINGS in message:
        return InsufficientStandbySettings(sentence)
    if recovery.TARGET_NOT_REACHED in message:
        return WalEndedBeforeTarget(sentence, transient=False)
    if recovery.TARGET_TOO_EARLY in message:
        return TargetBeforeConsistency(sentence, transient=False)
    return EngineError(sentence, transient=any(phrase in message for phrase in _TRANSIENT))


def _find_fatal(lines: list[str]) -> str | None:
    """Return the last fatal line, or the line before it when it only says that a file contains errors."""
    matches = [
        match for match in map(_LINE.match, lines) if match and not match["text"].startswith(_WAL_RECEIVER_MESSAGES)
    ]
    fatal = [index for index, match in enumerate(matches) if match["level"] in ("FATAL", "PANIC")]
    if not fatal:
        return None
    last = fatal[-1]
    has_explanation = last > 0 and "contains errors" in matches[last]["text"]
    return matches[last - 1 if has_explanation else last]["text"]


def _find_fork_failure(lines: list[str]) -> str | None:
    """A server that cannot fork gives up after a line of level LOG."""
    texts = [match["text"] for match in map(_LINE.match, lines) if match]
    return next((text for text in texts if text.startswith("could not fork")), None)


def _find_early_output(lines: list[str]) -> str | None:
    """Return the output from before logging started, or None when logging started: then the process was killed."""
    if any(map(_LINE.match, lines)):
        return None
    return " ".join(lines)[-300:] or None


def _read_since_start(log: Path) -> list[str]:
    lines = _read_tail(log).decode(errors="replace").rpartition(START_MARKER)[2].splitlines()
    return [line.strip() for line in lines if line.strip()]


def _read_tail(log: Path) -> bytes:
    """Include the previous file of the log, because it may have been rotated after the start."""
    text = b""
    for block in log_rotation.read_backwards((log, *log_rotation.list_rotated(log)[:1])):
        text = block + text
        if len(text) >= _TAIL_BYTES:
            break
    return text[-_TAIL_BYTES:]
