"""How a server archives its WAL, and the status files in which it records that.

The archive command runs in the data directory as the server's user. `../archive` is a link to the archive folder, so
the command is the same for every server and does not change when a volume is renamed.
"""

from bough.postgres import wal

STATUS_FOLDER = "archive_status"  # in `pg_wal`: holds a status file for each WAL file
_READY = ".ready"

# A file gets its final name only after it is complete and synced. The sync of the folder makes the name durable. A
# server that is stopped or copied ends its segment early, and as a sparse file the remaining zeros take no space.
ARCHIVE_COMMAND = (
    "{ test -f ../archive/%f || { "
    "dd if=%p of=../archive/.%f.new bs=64k conv=sparse,fsync status=none && mv ../archive/.%f.new ../archive/%f; "
    "}; } && sync ../archive/"
)
IS_ARCHIVING_ON = "select pg_catalog.current_setting('archive_mode') <> 'off' as is_on"
SELECT_LAST_FAILURE = """
    select last_failed_wal::text as file, last_failed_time as at from pg_catalog.pg_stat_archiver
     where last_failed_time > coalesce(last_archived_time, '-infinity')
"""


def temporary_name(name: str) -> str:
    """Return the name of a file in the archive until it is complete."""
    return f".{name}.new"


def is_needed_for_recovery(name: str) -> bool:
    """Return whether recovery needs a file of the archive. It needs no backup history files and no incomplete files."""
    return wal.is_segment(name) or wal.is_history_file(name)


def is_disposable(name: str) -> bool:
    """Return whether an archived file is not WAL and not needed: backup history files and partial segments."""
    return name.endswith((".backup", ".partial"))


def parse_ready_file(status_file: str) -> str | None:
    """Return the file to be archived for a `.ready` status file, or None for other status files."""
    name = status_file.removesuffix(_READY)
    return name if name != status_file and is_needed_for_recovery(name) else None
