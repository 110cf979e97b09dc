"""Statements that let a running server be copied, and what they answer. Pure.

A temporary slot keeps the WAL that the copy needs, and goes with the session, whatever becomes of us.
"""

import re
from dataclasses import dataclass

from bough.postgres import RESERVED_PREFIX

LABEL_FILE = "backup_label"
OLD_LABEL_FILE = "backup_label.old"  # what a server makes of it when it begins to recover
_FIRST_SEGMENT = re.compile(r"^START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)$", re.MULTILINE)
CREATE_TEMPORARY_SLOT = (
    "select slot_name::text from "
    "pg_catalog.pg_create_physical_replication_slot($1, immediately_reserve => true, temporary => true)"
)


def parse_first_segment(label: str) -> str | None:
    """The file in which a server that recovers by the label begins to read; None when the text is no label."""
    found = _FIRST_SEGMENT.search(label)
    return found[1] if found else None


def slot_name(token: str) -> str:
    return f"{RESERVED_PREFIX}clone_{token}"


def start_statement(major: int) -> str:
    """Takes the label; answers with the file name of the first segment."""
    call = "pg_backup_start($1, fast => true)" if major >= 15 else "pg_start_backup($1, true, false)"
    return f"select pg_catalog.pg_walfile_name(pg_catalog.{call})::text"


def stop_statement(major: int) -> str:
    """Answers with where the copy ends, the last segment and the text of the label file. Waits for no archive."""
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
