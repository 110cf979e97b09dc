"""A database of a branch, and the rules for its name."""

from dataclasses import dataclass
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
    is_wished: bool = False  # Postgres has not been told of it yet


def new_database(branch_id: BranchId, name: str, owner: str, now: datetime, *, is_wished: bool = False) -> Database:
    """The store assigns the id."""
    return Database(
        id=0, branch_id=branch_id, name=name, owner_name=owner, created_at=now, updated_at=now, is_wished=is_wished
    )


def check_name(name: str) -> str:
    return check_identifier(name, "database", _RESERVED, ("pg_", "bough_"))
