"""Changes to the roles and databases of a branch. Applying one twice has the same effect as applying it once.

The row of an operation stores the change without secrets: a verifier is read from the row of the role.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRole:
    """Create a role with or without LOGIN and with this password."""

    name: str
    can_login: bool = True
    verifier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPassword:
    """Set the password of an existing role."""

    name: str
    verifier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRole:
    """Drop a role. The owner of each database gets the objects that the role owned in it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """Create a database with this owner."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase:
    """Change the name or the owner of a database. Renaming it ends its connections."""

    name: str
    new_name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """Drop a database and end its connections."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePasswords:
    """Set the passwords of these roles (role → verifier; None: no password). All other roles that can log in lose
    theirs, unless `keeps_others` is set.
    """

    verifiers: Mapping[str, str | None]
    keeps_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DisableSubscriptions:
    """Disable all subscriptions and detach them from their replication slots, which belong to the parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAllRows:
    """Keep only the schema: delete all rows, the contents of materialized views, large objects and statistics."""


# A change of one role or database, requested by a user.
RequestedChange = CreateRole | SetPassword | DropRole | CreateDatabase | AlterDatabase | DropDatabase
CatalogChange = RequestedChange | ReplacePasswords | DisableSubscriptions | DeleteAllRows

_KINDS: dict[str, type[RequestedChange]] = {
    "make_role": CreateRole,
    "set_password": SetPassword,
    "drop_role": DropRole,
    "make_database": CreateDatabase,
    "change_database": AlterDatabase,
    "drop_database": DropDatabase,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_SECRET = "verifier"


def encode_change(change: RequestedChange) -> dict[str, Any]:
    """Return the stored form, without the verifier."""
    fields = {name: value for name, value in asdict(change).items() if name != _SECRET}
    return {"kind": _NAMES[type(change)], **fields}


def decode_change(fields: Mapping[str, Any]) -> RequestedChange:
    return _KINDS[fields["kind"]](**{name: value for name, value in fields.items() if name != "kind"})
