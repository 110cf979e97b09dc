"""How a server is told to replay WAL up to a point, and what it says of where it ended. Pure.

A position means everything that ended at or before it, a moment every commit at or before it. The timeline is always
said: what a neighbour's folder may have of a later one is none of this server's business.
"""

import re
import shlex
from datetime import UTC

from bough.domain.history import Point

SIGNAL_FILE = "recovery.signal"
TARGET_NOT_REACHED = "recovery ended before configured recovery target was reached"
TARGET_TOO_EARLY = "requested recovery stop point is before consistent recovery point"
# Of a server that has recovered: the last commit that it replayed. Nothing, when there was none.
SELECT_LAST_COMMIT_TIME = "select pg_catalog.pg_last_xact_replay_timestamp()"
# A commit that follows every moment that is past, so that none of them is after the last.
EMIT_MARKER = "select pg_catalog.pg_logical_emit_message(true, 'bough', '')"
SELECT_FLUSH_LSN = "select pg_catalog.pg_current_wal_flush_lsn()::text"

_SWITCH = re.compile(r"^\s*(\d+)\s+([0-9A-F]{1,8}/[0-9A-F]{1,8})\b", re.MULTILINE)
# Nobody asks it anything before it has come to the end. What a crash leaves of it is made anew, so that it waits for no
# disk: whoever runs it syncs all of it at the end. With the few buffers of a small compute it takes twice as long.
_FAST_RECOVERY = {
    "hot_standby": "off",
    "fsync": "off",
    "shared_buffers": "128MB",
    "recovery_target_action": "promote",
}


def recovery_settings(spool: str, point: Point, *, timeline: int | None) -> dict[str, str]:
    """Of a server that finds its WAL in the folder `spool`. Without a timeline it stays on the one it begins with."""
    return {
        **_FAST_RECOVERY,
        **target_settings(point),
        "restore_command": restore_command(spool),
        "recovery_target_timeline": "current" if timeline is None else str(timeline),
    }


def target_settings(point: Point) -> dict[str, str]:
    """Nothing for the end of the WAL. A record that begins at a position has not ended before it."""
    if point.at is not None:
        moment = point.at.astimezone(UTC).isoformat(sep=" ", timespec="microseconds")
        return {"recovery_target_time": moment, "recovery_target_inclusive": "on"}
    if point.lsn is not None:
        return {"recovery_target_lsn": point.lsn, "recovery_target_inclusive": "off"}
    return {}


def restore_command(spool: str) -> str:
    quoted = shlex.quote(spool).replace("%", "%%")
    return f'cp {quoted}/%f "%p"'


def history_file_name(timeline: int) -> str:
    """The file that says which timelines led to this one. The first has none."""
    return f"{timeline:08X}.history"


def parse_timeline_start(history: str) -> str | None:
    """Where the timeline of a history file begins; None when the text is none."""
    found = _SWITCH.findall(history)
    return str(found[-1][1]) if found else None
