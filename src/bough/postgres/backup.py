"""Statements to copy a running server with the backup API, and their results.

A temporary slot keeps the WAL that the copy needs. Postgres drops it when the session ends.
"""

import re
from dataclasses import dataclass

from bough.postgres import RESERVED_PREFIX

LABEL_FILE = "backup_label"
OLD_LABEL_FILE = "backup_label.old"  # a server renames the label to this when it starts to recover
_FIRST_SEGMENT = re.compile(r"^START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)$", re.MULTILINE)
CREATE_TEMPORARY_SLOT = (
    "select slot_name::text from "
    "pg_catalog.pg_create_physical_replication_slot($1, immediately_reserve => true, temporary => true)"
)


def parse_first_segment(label: str) -> str | None:
    """Return the WAL file at which recovery with this label starts, or None if the text is not a label."""
    match = _FIRST_SEGMENT.search(label)
    return match[1] if match else None


def slot_name(token: str) -> str:
    return f"{RESERVED_PREFIX}clone_{token}"


def start_statement(major: int) -> str:
    """Build the statement that takes the label as parameter and returns the name of the first segment."""
    call = "pg_backup_start($1, fast => true)" if major >= 15 else "pg_start_backup($1, true, false)"
    return f"select pg_catalog.pg_walfile_name(pg_catalog.{call})::text"


def stop_statement(major: int) -> str:
    """Build the statement that returns the end of the backup, its last segment and the label file.

    It does not wait for the archive."""
    call = "pg_backup_stop(wait_for_archive => false)" if major >= 15 else "pg_stop_backup(false, false)"
    return (
        "select lsn::text, pg_catalog.pg_walfile_name(lsn)::text as last_segment, labelfile::text as label "
        f"from pg_catalog.{call}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEnd:
    lsn: str
    last_segment: str
    label: str
