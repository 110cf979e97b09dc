"""A compute's log, and what it says about a start that failed."""

import re
from pathlib import Path

from bough import log_rotation
from bough.engine.port import EngineError
from bough.postgres import recovery

START_MARKER = "bough starts the compute"
_TAIL = 64 * 1024
# Of the server itself: in lines of sessions, whom it refuses while it starts, a role comes before the level.
_LINE = re.compile(r"(?:[^\[]*\[\d+\] )?(?P<level>LOG|ERROR|FATAL|PANIC):\s+(?P<text>.*)")

# Troubles that pass by themselves: a killed postmaster's children, another start at the same moment.
_PASSING = (
    "pre-existing shared memory block",
    "lock file",
    "is shutting down",
    "Cannot allocate memory",
    "could not fork",
)
_LACKS_SETTINGS = "insufficient parameter settings"
# A read replica whose primary sleeps says these all the time; they keep nobody from starting.
_OF_ITS_RECEIVER = (
    "could not connect to the primary",
    "could not receive data",
    "could not start WAL streaming",
    "terminating walreceiver",
)


class WalEndedBeforeTarget(EngineError):
    """A server that was to stop at a point came to the end of its WAL before."""


class TargetBeforeConsistency(EngineError):
    """A server that was to stop at a point would have had to before it had read all that it must."""


class InsufficientStandbySettings(EngineError):
    """A read replica has less of something than the WAL asks for that it replays; by now it knows of what."""


def read_start_error(log: Path, data: Path) -> EngineError:
    """Why the last start failed, in one sentence without our paths."""
    lines = _since_start(log)
    message = _fatal(lines) or _refused_fork(lines) or _complaint(lines)
    if message is None:
        return EngineError("The compute's process was ended from outside.")
    public = message.replace(str(data), "the data folder").replace(str(data.parent), "the volume").rstrip(".")
    sentence = f"The compute could not start: {public}."
    if _LACKS_SETTINGS in message:
        return InsufficientStandbySettings(sentence)
    if recovery.TARGET_NOT_REACHED in message:
        return WalEndedBeforeTarget(sentence, transient=False)
    if recovery.TARGET_TOO_EARLY in message:
        return TargetBeforeConsistency(sentence, transient=False)
    return EngineError(sentence, transient=any(sign in message for sign in _PASSING))


def _fatal(lines: list[str]) -> str | None:
    """The last fatal line; about files with errors, the line before, which names the setting."""
    found = [match for match in map(_LINE.match, lines) if match and not match["text"].startswith(_OF_ITS_RECEIVER)]
    fatal = [position for position, match in enumerate(found) if match["level"] in ("FATAL", "PANIC")]
    if not fatal:
        return None
    last = fatal[-1]
    told_before = last > 0 and "contains errors" in found[last]["text"]
    return found[last - 1 if told_before else last]["text"]


def _refused_fork(lines: list[str]) -> str | None:
    """A server that cannot have its processes gives up with a line that is no more than a note."""
    found = [match["text"] for match in map(_LINE.match, lines) if match]
    return next((text for text in found if text.startswith("could not fork")), None)


def _complaint(lines: list[str]) -> str | None:
    """What it said before it had a log; None when it had one, for then its end was not its own."""
    if any(map(_LINE.match, lines)):
        return None
    return " ".join(lines)[-300:] or None


def _since_start(log: Path) -> list[str]:
    lines = _end_of(log).decode(errors="replace").rpartition(START_MARKER)[2].splitlines()
    return [line.strip() for line in lines if line.strip()]


def _end_of(log: Path) -> bytes:
    """Of the log as it goes on over its pieces: it may have been cut after the start."""
    text = b""
    for block in log_rotation.read_backwards((log, *log_rotation.list_rotated(log)[:1])):
        text = block + text
        if len(text) >= _TAIL:
            break
    return text[-_TAIL:]
