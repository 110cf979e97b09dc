"""What a server answered, checked: behind a compute's socket may be a program that says anything.

Whatever does not have the type and the size that Postgres gives it is a ValueError.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bough.chunks import chunks
from bough.domain.lsn import is_lsn
from bough.engine.port import Contents, DatabaseNow, RoleNow, Storage
from bough.postgres import secret, wal
from bough.postgres.backup import BackupEnd
from bough.postgres.position import Position
from bough.postgres.replication import Standing

MOST_OF_A_NAME = 63  # bytes: Postgres cuts what is longer
MOST_OF_A_LABEL = 8192  # characters; Postgres writes about two hundred
MOST = 2**63 - 1  # of a number

_MD5 = re.compile(r"md5[0-9a-f]{32}")


def number(value: object) -> int:
    """A size, a count or a position."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise ValueError("no number")
    return value


def number_or_none(value: object) -> int | None:
    return None if value is None else number(value)


def truth(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("neither true nor false")
    return value


def moment(value: object) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("no moment")
    return value.astimezone(UTC)


def moment_or_none(value: object) -> datetime | None:
    return None if value is None else moment(value)


def name(value: object) -> bytes:
    if not isinstance(value, bytes) or not 0 < len(value) <= MOST_OF_A_NAME or b"\0" in value:
        raise ValueError("no name")
    return value


def text(value: object, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise ValueError("no text")
    return value


def lsn(value: object) -> str:
    if not isinstance(value, str) or not is_lsn(value):
        raise ValueError("no position")
    return value


def segment(value: object) -> str:
    if not isinstance(value, str) or not wal.is_segment(value):
        raise ValueError("no segment")
    return value


def verifier(value: object) -> str | None:
    """None: the role has no password. One that no login can be checked with is kept, so that a client is told why."""
    if value is None:
        return None
    told = text(value, secret.LONGEST)
    is_scram = told.startswith(f"{secret.SCHEME}$") and told.isascii() and told.isprintable()
    return told if is_scram or _MD5.fullmatch(told) else None


def is_text(*names: bytes | None) -> bool:
    """A name that is not UTF-8, as a database of another encoding may make one, cannot be asked for by us."""
    try:
        for each in names:
            (each or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


async def contents(found: Sequence[Any], most: Mapping[str, int]) -> Contents:
    """No more of each kind than was asked for, and no name twice."""
    named: dict[str, dict[str, Any]] = {kind: {} for kind in most}
    totals = dict.fromkeys(most, 0)
    told = dict.fromkeys(most, 0)
    async for rows in chunks(found):
        for row in rows:
            kind = row["kind"]
            totals[kind], told[kind] = number(row["total"]), told[kind] + 1
            if is_text(row["name"], row["owner"]):
                named[kind][name(row["name"]).decode()] = role(row) if kind == "role" else database(row)
    if any(told[kind] > most[kind] or totals[kind] < told[kind] for kind in most):
        raise ValueError("other rows than were asked for")
    return Contents(
        roles=tuple(named["role"].values()),
        databases=tuple(named["database"].values()),
        unlisted_roles=totals["role"] - told["role"],
        unlisted_databases=totals["database"] - told["database"],
    )


def role(row: Any) -> RoleNow:
    return RoleNow(
        name=name(row["name"]).decode(),
        can_login=truth(row["can_login"]),
        verifier=verifier(row["verifier"]),
        valid_until=moment_or_none(row["valid_until"]),
    )


def database(row: Any) -> DatabaseNow:
    return DatabaseNow(name=name(row["name"]).decode(), owner=name(row["owner"]).decode())


def storage(row: Any) -> Storage:
    limit = row["temp_file_bytes"]
    return Storage(
        bytes=number(row["bytes"]),
        temp_file_bytes=-1 if limit == -1 else number(limit),  # -1 is Postgres's word for no limit
        is_busy=truth(row["is_busy"]),
    )


def backup_end(row: Any) -> BackupEnd:
    return BackupEnd(
        lsn=lsn(row["lsn"]), last_segment=segment(row["last_segment"]), label=text(row["label"], MOST_OF_A_LABEL)
    )


def position(row: Any) -> Position:
    return Position(started_at=moment(row["started_at"]), wal=number_or_none(row["wal"]))


def standing(row: Any) -> Standing:
    age = row["age"]
    if age is not None and (type(age) is not float or not math.isfinite(age)):
        raise ValueError("no age")
    return Standing(
        follows=truth(row["follows"]),
        is_paused=truth(row["is_paused"]),
        streams=truth(row["streams"]),
        has=number_or_none(row["has"]),
        replayed=number_or_none(row["replayed"]),
        age=age,
    )
