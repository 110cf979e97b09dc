"""How a server archives its WAL, and what it says of that in its own folder. Pure.

The command runs in the data folder, as the server's user. `archive` beside it is a link to the place, so the text is
the same for every server, and need not change when a volume gets another name.
"""

from bough.postgres import wal

STATUS_FOLDER = "archive_status"  # in `pg_wal`: a mark for every file that is to be archived, or was
_READY = ".ready"

# What is there under its name is whole: it was written under another one and synced. With the first file in it the
# folder itself is on disk, too. A server that is stopped or copied ends its segment early, and the rest, which is
# zeros, takes no room.
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
    """What a file is called in an archive until all of it is there."""
    return f".{name}.new"


def is_needed_for_recovery(name: str) -> bool:
    """Whether a file of an archive is needed to recover; notes of backups and what is half written are not."""
    return wal.is_segment(name) or wal.is_history_file(name)


def is_disposable(name: str) -> bool:
    """What a server archives beside its WAL, and nobody needs: where backups began, and the rest of a timeline."""
    return name.endswith((".backup", ".partial"))


def parse_ready_file(status_file: str) -> str | None:
    """The file that is to be archived and is not yet, by a name in the status folder; None: it says something else."""
    name = status_file.removesuffix(_READY)
    return name if name != status_file and is_needed_for_recovery(name) else None
