"""A role of a branch, and the rules for its name."""

import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime

from bough.domain.identifiers import check_identifier
from bough.ids import BranchId

DEFAULT_NAME = "neondb_owner"
_RESERVED = frozenset({"public", "none", "postgres", "current_user", "current_role", "session_user", "user"})
_PASSWORD_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    branch_id: BranchId
    name: str
    verifier: str | None  # as Postgres stores it; None: no password
    sealed_password: str | None  # None when it is not stored or was changed with SQL
    is_protected: bool
    created_at: datetime
    updated_at: datetime
    valid_until: datetime | None = None  # when its password expires
    is_pending: bool = field(default=False, metadata={"column": "is_wished"})  # not applied in Postgres yet
    can_login: bool = True


def check_name(name: str) -> str:
    return check_identifier(name, "role", _RESERVED, ("pg_", "bough_"))


def new_password() -> str:
    """Only letters and digits, because clients put passwords into URIs without quoting them."""
    return "npg_" + "".join(secrets.choice(_PASSWORD_LETTERS) for _ in range(24))


def password_sealing_purpose(branch_id: BranchId, role_name: str) -> str:
    """Return the purpose under which the vault seals the password of a role."""
    return f"password of {role_name} on {branch_id}"
