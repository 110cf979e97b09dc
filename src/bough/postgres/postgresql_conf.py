"""Renders postgresql.conf from settings."""

from collections.abc import Mapping

from bough.postgres import archiver
from bough.postgres.wal import SEGMENT_MB

SIZE_FILE = "size.conf"  # settings that depend on the size of the compute
LIMITS_FILE = "limits.conf"  # settings that depend on the project's plan

COMPUTE_DEFAULTS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0777",  # the folder of the socket restricts access
    "password_encryption": "scram-sha-256",
    "min_wal_size": f"{2 * SEGMENT_MB}MB",
    "max_wal_size": "1GB",
    "recovery_init_sync_method": "syncfs",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "archive_mode": "on",  # changing it needs a restart
    "archive_command": archiver.ARCHIVE_COMMAND,
    "max_slot_wal_keep_size": "4GB",  # a slot that is not read must not fill the disk
    "shared_preload_libraries": "",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "datestyle": "iso, mdy",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "default_text_search_config": "pg_catalog.english",
    "jit": "off",
    "autovacuum_naptime": "1min",
    "max_locks_per_transaction": "64",
}

# Without a limit, the writes of a recovering branch would delay the clients of its parent.
_NO_PREFETCH = {"recovery_prefetch": "off"}
_PREFETCH_SINCE = 15
# 64 MB in pages. Otherwise the queue can grow to 8 GB if a listener does not read it. Needs a restart.
_NOTIFY_QUEUE_LIMIT = {"max_notify_queue_pages": "8192"}
_NOTIFY_QUEUE_LIMIT_SINCE = 17


def render(settings: Mapping[str, str], *, major: int, is_standby: bool = False) -> str:
    """Render the whole file: the platform's settings, then `settings`. A standby is always in recovery."""
    prefetch = {} if is_standby or major < _PREFETCH_SINCE else _NO_PREFETCH
    queue = _NOTIFY_QUEUE_LIMIT if major >= _NOTIFY_QUEUE_LIMIT_SINCE else {}
    return render_lines({**COMPUTE_DEFAULTS, **prefetch, **queue, **settings})


def render_with_includes(settings: Mapping[str, str], *, major: int, is_standby: bool) -> str:
    """Render the file with includes: `SIZE_FILE` first and `LIMITS_FILE` last, because the last value wins."""
    own = render(settings, major=major, is_standby=is_standby)
    return f"include '{SIZE_FILE}'\n{own}include_if_exists '{LIMITS_FILE}'\n"


def render_lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in sorted(settings.items()))


def _value(value: str) -> str:
    if "\n" in value or "\0" in value:
        raise ValueError("a setting must not contain a line break")
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
