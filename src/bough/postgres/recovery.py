"""Settings for recovery to a point in time or an LSN, and the messages and files that tell where recovery ended.

An LSN includes every record that ends at or before it, a timestamp every commit at or before it. The timeline is
always set, because a shared folder may contain WAL of a later timeline.
"""

import re
import shlex
from datetime import UTC

from bough.domain.history import Point

SIGNAL_FILE = "recovery.signal"
TARGET_NOT_REACHED = "recovery ended before configured recovery target was reached"
TARGET_TOO_EARLY = "requested recovery stop point is before consistent recovery point"
# The commit time of the last replayed transaction, after recovery; null if there was none.
SELECT_LAST_COMMIT_TIME = "select pg_catalog.pg_last_xact_replay_timestamp()"
# Writes a commit later than every past timestamp, so that each of them can be a recovery target.
EMIT_MARKER = "select pg_catalog.pg_logical_emit_message(true, 'bough', '')"
SELECT_FLUSH_LSN = "select pg_catalog.pg_current_wal_flush_lsn()::text"

_SWITCH = re.compile(r"^\s*(\d+)\s+([0-9A-F]{1,8}/[0-9A-F]{1,8})\b", re.MULTILINE)
# No client uses the server before recovery ends. A crashed recovery is started again from the beginning, so the server
# runs without syncs, and its caller syncs everything at the end. With the few buffers of a small compute, recovery
# would take twice as long.
_FAST_RECOVERY = {
    "hot_standby": "off",
    "fsync": "off",
    "shared_buffers": "128MB",
    "recovery_target_action": "promote",
}


def recovery_settings(spool: str, point: Point, *, timeline: int | None) -> dict[str, str]:
    """Return settings to restore WAL from the folder `spool`. Without a timeline, the server stays on its own."""
    return {
        **_FAST_RECOVERY,
        **target_settings(point),
        "restore_command": restore_command(spool),
        "recovery_target_timeline": "current" if timeline is None else str(timeline),
    }


def target_settings(point: Point) -> dict[str, str]:
    """Return no settings for the end of the WAL. A record that starts at the LSN is not replayed."""
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
    """Return the history file of a timeline. The first timeline has none."""
    return f"{timeline:08X}.history"


def parse_timeline_start(history: str) -> str | None:
    """Return the LSN at which the timeline of a history file starts, or None if the text is not one."""
    switches = _SWITCH.findall(history)
    return str(switches[-1][1]) if switches else None
