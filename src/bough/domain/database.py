"""A database of a branch, and the rules for its name."""

from dataclasses import dataclass, field
from datetime import datetime

from bough.domain.identifiers import check_identifier
from bough.ids import BranchId

DEFAULT_NAME = "neondb"
_RESERVED = frozenset({"postgres", "template0", "template1", "replication", "all", "sameuser", "samerole"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    id: int
    branch_id: BranchId
    name: str
    owner_name: str
    created_at: datetime
    updated_at: datetime
    is_pending: bool = field(default=False, metadata={"column": "is_wished"})  # not applied in Postgres yet


def new_database(branch_id: BranchId, name: str, owner: str, now: datetime, *, is_pending: bool = False) -> Database:
    """The store assigns the id."""
    return Database(
        id=0, branch_id=branch_id, name=name, owner_name=owner, created_at=now, updated_at=now, is_pending=is_pending
    )


def check_name(name: str) -> str:
    return check_identifier(name, "database", _RESERVED, ("pg_", "bough_"))
