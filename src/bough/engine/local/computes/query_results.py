"""Parse and check query results. The program behind a compute's socket may return anything.

A value that does not have the type and size that Postgres gives it raises ValueError.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bough.chunks import iterate_chunks
from bough.domain.lsn import is_lsn
from bough.engine.port import BranchContents, ComputeStatistics, ObservedDatabase, ObservedRole, StorageUsage
from bough.ids import VolumeId
from bough.postgres import scram, wal
from bough.postgres.backup import BackupEnd
from bough.postgres.database_statistics import COLUMNS
from bough.postgres.replication import ReplicaStatus
from bough.postgres.server_status import ServerStatus

MAX_NAME_BYTES = 63  # Postgres truncates longer names
MAX_LABEL_LENGTH = 8192  # characters; Postgres writes about 200
MAX_BIGINT = 2**63 - 1

_MD5 = re.compile(r"md5[0-9a-f]{32}")


def parse_number(value: object) -> int:
    """Parse a size, a count or a position."""
    if type(value) is not int or not 0 <= value <= MAX_BIGINT:
        raise ValueError("not a number")
    return value


def parse_optional_number(value: object) -> int | None:
    return None if value is None else parse_number(value)


def parse_bool(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("not a boolean")
    return value


def parse_timestamp(value: object) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("not a timestamp")
    return value.astimezone(UTC)


def parse_optional_timestamp(value: object) -> datetime | None:
    return None if value is None else parse_timestamp(value)


def parse_name(value: object) -> bytes:
    if not isinstance(value, bytes) or not 0 < len(value) <= MAX_NAME_BYTES or b"\0" in value:
        raise ValueError("not a name")
    return value


def parse_text(value: object, max_length: int) -> str:
    if not isinstance(value, str) or len(value) > max_length:
        raise ValueError("not a text")
    return value


def parse_lsn(value: object) -> str:
    if not isinstance(value, str) or not is_lsn(value):
        raise ValueError("not an LSN")
    return value


def parse_segment(value: object) -> str:
    if not isinstance(value, str) or not wal.is_segment(value):
        raise ValueError("not a WAL segment")
    return value


def parse_verifier(value: object) -> str | None:
    """Return None for a role without a password. Keep an MD5 hash, so that the gateway can explain the failed login."""
    if value is None:
        return None
    text = parse_text(value, scram.MAX_VERIFIER_LENGTH)
    is_scram = text.startswith(f"{scram.SCHEME}$") and text.isascii() and text.isprintable()
    return text if is_scram or _MD5.fullmatch(text) else None


def is_utf8(*names: bytes | None) -> bool:
    """Return whether all names are UTF-8. In a database with another encoding, clients can create others."""
    try:
        for name in names:
            (name or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


async def parse_contents(rows: Sequence[Any], max_rows: Mapping[str, int]) -> BranchContents:
    """Reject more rows of a kind than were requested. A name that occurs twice is listed once."""
    by_name: dict[str, dict[str, Any]] = {kind: {} for kind in max_rows}
    totals = dict.fromkeys(max_rows, 0)
    counts = dict.fromkeys(max_rows, 0)
    async for chunk in iterate_chunks(rows):
        for row in chunk:
            kind = row["kind"]
            totals[kind], counts[kind] = parse_number(row["total"]), counts[kind] + 1
            if is_utf8(row["name"], row["owner"]):
                name = parse_name(row["name"]).decode()
                by_name[kind][name] = parse_role(row) if kind == "role" else parse_database(row)
    if any(counts[kind] > max_rows[kind] or totals[kind] < counts[kind] for kind in max_rows):
        raise ValueError("other rows than requested")
    return BranchContents(
        roles=tuple(by_name["role"].values()),
        databases=tuple(by_name["database"].values()),
        unlisted_roles=totals["role"] - counts["role"],
        unlisted_databases=totals["database"] - counts["database"],
    )


def parse_role(row: Any) -> ObservedRole:
    return ObservedRole(
        name=parse_name(row["name"]).decode(),
        can_login=parse_bool(row["can_login"]),
        verifier=parse_verifier(row["verifier"]),
        valid_until=parse_optional_timestamp(row["valid_until"]),
    )


def parse_database(row: Any) -> ObservedDatabase:
    return ObservedDatabase(name=parse_name(row["name"]).decode(), owner=parse_name(row["owner"]).decode())


def parse_storage(row: Any) -> StorageUsage:
    limit = row["temp_file_bytes"]
    return StorageUsage(
        used_bytes=parse_number(row["bytes"]),
        temp_file_limit_bytes=-1 if limit == -1 else parse_number(limit),  # -1 means no limit
        is_busy=parse_bool(row["is_busy"]),
    )


def parse_backup_end(row: Any) -> BackupEnd:
    return BackupEnd(
        lsn=parse_lsn(row["lsn"]),
        last_segment=parse_segment(row["last_segment"]),
        label=parse_text(row["label"], MAX_LABEL_LENGTH),
    )


def parse_server_status(row: Any) -> ServerStatus:
    return ServerStatus(started_at=parse_timestamp(row["started_at"]), wal=parse_optional_number(row["wal"]))


def parse_statistics(row: Any, volume_id: VolumeId) -> ComputeStatistics:
    return ComputeStatistics(
        volume_id=volume_id,
        reset_at=parse_optional_timestamp(row["reset_at"]),
        counts={name: parse_number(row[name]) for name in COLUMNS},
        wal_position=parse_optional_number(row["wal_position"]),
        replayed_position=parse_optional_number(row["replayed_position"]),
        replay_age_seconds=_parse_optional_age(row["replay_age"]),
    )


def _parse_optional_age(value: object) -> float | None:
    if value is not None and (type(value) is not float or not math.isfinite(value)):
        raise ValueError("not an age")
    return value


def parse_standby_status(row: Any) -> ReplicaStatus:
    return ReplicaStatus(
        is_in_recovery=parse_bool(row["is_in_recovery"]),
        is_paused=parse_bool(row["is_paused"]),
        is_streaming=parse_bool(row["is_streaming"]),
        received_lsn=parse_optional_number(row["received"]),
        replayed_lsn=parse_optional_number(row["replayed"]),
        replay_age_seconds=_parse_optional_age(row["age"]),
    )
