"""A change to what is in a branch: its roles and databases. Each may be made twice and means the same.

The row of the operation carries it, without secrets: a verifier is read from the role's own row when it is made.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRole:
    """The role is there, may log in or not, and has this password."""

    name: str
    can_login: bool = True
    verifier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPassword:
    """A role that is there has this password from now on."""

    name: str
    verifier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRole:
    """The role is gone. What it owned in a database belongs to the database's owner."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """The database is there, and has this owner."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase:
    """The database has another name, another owner, or both; whoever is in it is cut off for a new name."""

    name: str
    new_name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """The database is gone; whoever was in it is cut off."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePasswords:
    """These roles have new passwords (role → verifier; None: no password), and every other role that may log in has
    none, or its own.
    """

    verifiers: Mapping[str, str | None]
    keeps_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DisableSubscriptions:
    """No subscription follows its publisher, nor could take the parent's place there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAllRows:
    """The structure stays, and no row: of tables, of materialized views, of large objects, of statistics."""


RequestedChange = (
    CreateRole | SetPassword | DropRole | CreateDatabase | AlterDatabase | DropDatabase
)  # by a user, for one thing
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
    """For the operation's row."""
    fields = {name: value for name, value in asdict(change).items() if name != _SECRET}
    return {"kind": _NAMES[type(change)], **fields}


def decode_change(fields: Mapping[str, Any]) -> RequestedChange:
    return _KINDS[fields["kind"]](**{name: value for name, value in fields.items() if name != "kind"})
